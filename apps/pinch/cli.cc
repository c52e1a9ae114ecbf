#include "apps/pinch/cli.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

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

void JsonOption::add_to(CLI::App& command, const std::string& option, const std::string& about) {
  command.add_option(option, path_, about)->type_name("FILE|-");
}

Result<void> JsonOption::write(const nlohmann::ordered_json& document) const {
  if (!given()) return {};
  const std::string text = document.dump(2) + "\n";
  if (on_stdout()) {
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    if (!written) return Error{ErrorCode::kIo, fmt::format("cannot write JSON: {}", std::strerror(errno)), "stdout"};
    return {};
  }
  const std::string part = fmt::format("{}.part{}", path_, ::getpid());
  const auto close = [](std::FILE* file) { return std::fclose(file); };
  std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(part.c_str(), "wb"), close);
  const auto fail = [&] {
    const int reason = errno;
    file.reset();
    ::unlink(part.c_str());
    return Error{ErrorCode::kIo, fmt::format("cannot write JSON: {}; give a writable file", std::strerror(reason)),
                 path_};
  };
  if (!file || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0) {
    return fail();
  }
  if (std::rename(part.c_str(), path_.c_str()) != 0) return fail();
  return {};
}

}  // namespace pinch::cli
