// A folder under $TMPDIR, or /tmp, that goes away with its owner.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "pinch/result.h"

namespace pinch {

class TemporaryFolder {
 public:
  /// Errors: kIo.
  static Result<TemporaryFolder> create() {
    const char* parent = std::getenv("TMPDIR");
    std::string path = fmt::format("{}/pinch_XXXXXX", parent != nullptr && *parent != 0 ? parent : "/tmp");
    if (::mkdtemp(path.data()) == nullptr) {
      return Error{
          ErrorCode::kIo,
          fmt::format("cannot make a temporary folder: {}; set TMPDIR to a writable folder", std::strerror(errno)),
          path};
    }
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace pinch
