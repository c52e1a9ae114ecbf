#include "src/core/file_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace pinch {

Error corrupt(std::string_view file, std::uint64_t offset, std::string_view rule, std::string_view text) {
  return {ErrorCode::kCorrupt, fmt::format("{}: {}", rule, text), fmt::format("{}: byte {}", file, offset)};
}

Error os_error(std::string_view file, std::string_view action, int number) {
  return {number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          fmt::format("cannot {}: {}", action, std::strerror(number)), std::string(file)};
}

Error with_advice(Error error, std::string_view advice) {
  if (error.code == ErrorCode::kNotFound) error.text += fmt::format("; {}", advice);
  return error;
}

std::string quote_name(std::string_view name) {
  constexpr std::size_t kShown = 200;
  std::string text = "\"";
  for (const char c : name.substr(0, kShown)) {
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      text += c;
    }
  }
  text += '"';
  if (name.size() > kShown) text += fmt::format("... ({} bytes)", name.size());
  return text;
}

}  // namespace pinch
