#include "workbench/store/location.h"

#include <cstdlib>
#include <filesystem>

namespace pinch::store {

namespace {

std::filesystem::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<std::string> database_path(const std::string& asked) {
  if (!asked.empty()) return asked;
  if (const auto file = variable("PINCH_DB"); !file.empty()) return file.string();
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (const auto home = variable("HOME"); cache.empty() && !home.empty()) cache = home / ".cache";
  if (cache.empty()) {
    return Error{ErrorCode::kIo, "no place for the database: set PINCH_DB, or give --db FILE", ""};
  }
  return (cache / "pinch" / "pinch.sqlite").string();
}

std::string kernels_path() {
  const auto database = database_path("");
  return database ? (std::filesystem::path(*database).parent_path() / "kernels").string() : "";
}

}  // namespace pinch::store
