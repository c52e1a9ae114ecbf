#include "apps/pinch/cli.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "src/core/atomic_file.h"
#include "src/core/json_text.h"

namespace pinch::cli {

ExitCode exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIllegal:
      return kFailed;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
      return kUsage;
    case ErrorCode::kUnsupported:
    case ErrorCode::kIo:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kDevice:
      return kEnvironment;
    case ErrorCode::kInterrupted:
      return kSignalled;
  }
  return kEnvironment;
}

int report(const Error& error) {
  fmt::print(stderr, "pinch: error: {}\n", error.message());
  return exit_code(error.code);
}

std::string project_sources() {
  const char* named = std::getenv("PINCH_SOURCE");
  return named != nullptr ? named : PINCH_SOURCE_DIR;
}

// By the road of the write itself, since permissions alone do not tell: a file beside it that is taken away again.
Result<void> may_write(const std::string& path) {
  if (std::filesystem::is_directory(path)) return Error{ErrorCode::kInvalidArgument, "is a folder; give a file", path};
  if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path)) return {};  // a device or a pipe
  if (const auto file = AtomicFile::create(path, 0); !file)
    return Error{ErrorCode::kIo, fmt::format("cannot be written: {}; give a writable file", file.error().text), path};
  return {};
}

Result<void> write_result(const std::string& path, std::string_view text, std::string_view what) {
  const auto written = write_file(path, text);
  if (written) return {};
  return Error{ErrorCode::kIo, fmt::format("cannot write {}: {}; give a writable file", what, written.error().text),
               path};
}

void JsonOption::add_to(CLI::App& command, const std::string& option, const std::string& about) {
  command.add_option(option, path_, about)->type_name("FILE|-");
}

Result<void> JsonOption::write(const nlohmann::ordered_json& document) const {
  if (!given()) return {};
  const std::string text = json_text(document, 2) + "\n";
  if (on_stdout()) {
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    if (!written) return Error{ErrorCode::kIo, fmt::format("cannot write JSON: {}", std::strerror(errno)), "stdout"};
    return {};
  }
  return write_result(path_, text, "JSON");
}

}  // namespace pinch::cli
