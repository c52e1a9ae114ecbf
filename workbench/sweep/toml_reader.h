// Fields of TOML tables, with errors that say file, line and what is allowed.
#pragma once

#include <toml++/toml.h>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pinch/result.h"
#include "workbench/sweep/expression.h"
#include "workbench/sweep/value.h"

namespace pinch::sweep {

/// Keeps the first error, so that the reading reads like the file. After an error every getter gives an empty value.
class TomlReader {
 public:
  explicit TomlReader(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const Error& error() const { return *error_; }
  /// "FILE:LINE".
  [[nodiscard]] std::string where(const toml::node& node) const;
  void fail(const toml::node& node, const std::string& text);
  void fail(const Error& error);

  /// Refuses keys that the table may not have.
  void allow(const toml::table& table, std::string_view what, std::vector<std::string> keys);

  /// Null where there is no such key, which is an error where it is required.
  const toml::node* get(const toml::table& table, std::string_view key, bool required);
  std::string text(const toml::table& table, std::string_view key, bool required = false, std::string otherwise = {});
  bool flag(const toml::table& table, std::string_view key);
  double number(const toml::table& table, std::string_view key, double otherwise);  ///< above 0
  std::int64_t integer(const toml::table& table, std::string_view key, std::int64_t otherwise);
  std::vector<std::string> texts(const toml::table& table, std::string_view key, bool required = false);
  const toml::table* table(const toml::table& parent, std::string_view key);
  template <class Enum>
  Enum choice(const toml::table& table, std::string_view key, Enum otherwise,
              std::initializer_list<std::pair<const char*, Enum>> choices, bool required = false) {
    const toml::node* node = get(table, key, required);
    if (node == nullptr) return otherwise;
    std::string names;
    for (const auto& [name, value] : choices) {
      if (node->is_string() && node->as_string()->get() == name) return value;
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    fail(*node, "'" + std::string(key) + "' is one of: " + names);
    return otherwise;
  }

  std::optional<Value> value(const toml::node& node);
  /// A value alone, a list of them, or {from, to, step | times}.
  std::vector<Value> values(const toml::node& node);
  Expression expression(const toml::node& node);

 private:
  Expression parsed(const std::string& text, const toml::node& node);
  std::vector<Value> range_values(const toml::table& range);

  std::string path_;
  std::optional<Error> error_;
};

}  // namespace pinch::sweep
