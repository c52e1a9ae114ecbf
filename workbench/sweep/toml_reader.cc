#include "workbench/sweep/toml_reader.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/core/file_error.h"
#include "src/core/nearest.h"

namespace pinch::sweep {
namespace {

constexpr std::size_t kMostValues = 1 << 20;

}  // namespace

std::string TomlReader::where(const toml::node& node) const {
  return fmt::format("{}:{}", path_, node.source().begin.line);
}

void TomlReader::fail(const toml::node& node, const std::string& text) {
  if (!error_) error_ = Error{ErrorCode::kInvalidArgument, text, where(node)};
}

void TomlReader::fail(const Error& error) {
  if (!error_) error_ = error;
}

void TomlReader::allow(const toml::table& table, std::string_view what, std::vector<std::string> keys) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
    const std::string hint = did_you_mean(name, keys, 1);
    return fail(node,
                fmt::format("{} has no key {}; {} It has: {}", what, quote_name(name), hint, fmt::join(keys, ", ")));
  }
}

const toml::node* TomlReader::get(const toml::table& table, std::string_view key, bool required,
                                  std::string_view allowed) {
  const toml::node* node = table.get(key);
  if (node == nullptr && required) fail(table, fmt::format("the key '{}' is missing; it is {}", key, allowed));
  return node;
}

std::optional<std::string> TomlReader::word(const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr) return std::nullopt;
  if (text->get().find('\0') == std::string::npos) return text->get();
  fail(node, fmt::format("{} holds a NUL, which no text here may", quote_name(text->get())));
  return std::string();
}

std::string TomlReader::text(const toml::table& table, std::string_view key, bool required, std::string otherwise) {
  constexpr std::string_view kAllowed = "a text in quotes";
  const toml::node* node = get(table, key, required, kAllowed);
  if (node == nullptr) return otherwise;
  if (auto text = word(*node)) return std::move(*text);
  fail(*node, fmt::format("'{}' is {}", key, kAllowed));
  return otherwise;
}

double TomlReader::number(const toml::table& table, std::string_view key, double otherwise) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return otherwise;
  const auto value = node->value<double>();
  if (value && node->is_number() && std::isfinite(*value) && *value > 0) return *value;
  fail(*node, fmt::format("'{}' is a number above 0", key));
  return otherwise;
}

std::int64_t TomlReader::integer(const toml::table& table, std::string_view key, std::int64_t otherwise) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return otherwise;
  if (const auto* value = node->as_integer()) return value->get();
  fail(*node, fmt::format("'{}' is an integer", key));
  return otherwise;
}

bool TomlReader::flag(const toml::table& table, std::string_view key) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return false;
  if (const auto* value = node->as_boolean()) return value->get();
  fail(*node, fmt::format("'{}' is true or false", key));
  return false;
}

std::vector<std::string> TomlReader::texts(const toml::table& table, std::string_view key, bool required) {
  constexpr std::string_view kAllowed = "a list of texts, as in [\"./program\", \"--size\", \"${m}\"]";
  std::vector<std::string> list;
  const toml::node* node = get(table, key, required, kAllowed);
  if (node == nullptr) return list;
  const toml::array* array = node->as_array();
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    auto each = word(*array->get(i));
    if (!each) break;
    list.push_back(std::move(*each));
  }
  if (array == nullptr || list.size() != array->size() || (required && list.empty())) {
    fail(*node, fmt::format("'{}' is {}", key, kAllowed));
  }
  return list;
}

const toml::table* TomlReader::table(const toml::table& parent, std::string_view key) {
  const toml::node* node = parent.get(key);
  if (node != nullptr && node->as_table() == nullptr) fail(*node, fmt::format("'{}' is a table: [{}]", key, key));
  return node == nullptr ? nullptr : node->as_table();
}

std::optional<Value> TomlReader::value(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return Value(flag->get());
  if (const auto* integer = node.as_integer()) return Value(integer->get());
  if (auto text = word(node)) return Value(std::move(*text));
  if (const auto* real = node.as_floating_point(); real != nullptr && std::isfinite(real->get())) {
    return Value(real->get());
  }
  fail(node, "a value is an integer, a finite number, a text or a boolean");
  return std::nullopt;
}
std::vector<Value> TomlReader::values(const toml::node& node) {
  std::vector<Value> list;
  if (const auto* array = node.as_array()) {
    for (const toml::node& each : *array) {
      if (auto one = value(each)) list.push_back(std::move(*one));
    }
  } else if (const auto* range = node.as_table()) {
    list = range_values(*range);
  } else if (auto one = value(node)) {
    list.push_back(std::move(*one));
  }
  if (list.empty()) fail(node, "at least one value is needed");
  for (std::size_t i = 0; i < list.size() && list.size() <= 4096; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (same(list[i], list[j])) fail(node, fmt::format("the value {} appears twice", to_string(list[i])));
    }
  }
  return list;
}

Expression TomlReader::expression(const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr) {
    if (const auto* integer = node.as_integer()) return parsed(fmt::format("{}", integer->get()), node);
    fail(node, "an expression is a text in quotes, as in \"tile_m * tile_n <= 4096\"");
    return {};
  }
  return parsed(text->get(), node);
}

Expression TomlReader::parsed(const std::string& text, const toml::node& node) {
  auto result = Expression::parse(text, where(node));
  if (result.ok()) return std::move(*result);
  fail(result.error());
  return {};
}

std::vector<Value> TomlReader::range_values(const toml::table& range) {
  allow(range, "a range", {"from", "to", "step", "times"});
  for (const char* key : {"from", "to"}) get(range, key, true, "an integer");
  const std::int64_t from = integer(range, "from", 0), to = integer(range, "to", 0);
  const std::int64_t step = integer(range, "step", 1), times = integer(range, "times", 1);
  const bool geometric = range.contains("times");
  if (!failed() && (to < from || step < 1 || (geometric && (times < 2 || from < 1 || range.contains("step"))))) {
    fail(range,
         "a range goes from <= to by step >= 1, or by times >= 2 from a from >= 1, as in {from = 8, to = 64, times = "
         "2}");
  }
  std::vector<Value> list;
  for (std::int64_t at = from; !failed() && at <= to;) {
    list.emplace_back(at);
    if (list.size() > kMostValues) fail(range, "a range has at most 1048576 values");
    if (geometric ? at > to / times : at > to - step) break;
    at = geometric ? at * times : at + step;
  }
  return list;
}

}  // namespace pinch::sweep
