#include "workbench/sweep/value.h"

#include <fmt/core.h>

#include <algorithm>

namespace pinch::sweep {

std::string to_string(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  return std::get<std::string>(value);
}

std::string listed(const Value& value, std::span<const Value> all) {
  std::string text = to_string(value);
  if (!std::holds_alternative<std::string>(value)) return text;
  const bool shared = std::any_of(all.begin(), all.end(), [&](const Value& other) {
    return !std::holds_alternative<std::string>(other) && to_string(other) == text;
  });
  if (!shared && text.find_first_of(",\"\\") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string_view kind_of(const Value& value) {
  constexpr std::string_view kNames[] = {"a boolean", "an integer", "a number", "a text"};
  return kNames[value.index()];
}

double number_of(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return 0;
}

bool same(const Value& a, const Value& b) {
  if (a.index() == b.index()) return a == b;
  const auto numeric = [](const Value& value) { return value.index() == 1 || value.index() == 2; };
  return numeric(a) && numeric(b) && number_of(a) == number_of(b);
}

}  // namespace pinch::sweep
