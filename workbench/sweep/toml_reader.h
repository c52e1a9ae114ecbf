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

/// Keeps the first error, so that the reading reads like the file. After an error every getter gives an empty value. No
/// text holds a NUL, which would end a word of a command or a variable early.
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

  /// Null where there is no such key, which is an error where it is required; `allowed` says what it may hold.
  const toml::node* get(const toml::table& table, std::string_view key, bool required, std::string_view allowed);
  template <class Enum>
  using Choices = std::initializer_list<std::pair<const char*, Enum>>;
  template <class Enum>
  static std::string one_of(const Choices<Enum>& choices) {
    std::string names;
    for (const auto& choice : choices) names += (names.empty() ? "one of: " : ", ") + std::string(choice.first);
    return names;
  }
  std::string text(const toml::table& table, std::string_view key, bool required = false, std::string otherwise = {});
  bool flag(const toml::table& table, std::string_view key);
  double number(const toml::table& table, std::string_view key, double otherwise);  ///< above 0
  std::int64_t integer(const toml::table& table, std::string_view key, std::int64_t otherwise);
  std::vector<std::string> texts(const toml::table& table, std::string_view key, bool required = false);
  const toml::table* table(const toml::table& parent, std::string_view key);
  template <class Enum>
  Enum choice(const toml::table& table, std::string_view key, Enum otherwise, Choices<Enum> choices,
              bool required = false) {
    const std::string allowed = one_of(choices);
    const toml::node* node = get(table, key, required, allowed);
    if (node == nullptr) return otherwise;
    for (const auto& [name, value] : choices) {
      if (node->is_string() && node->as_string()->get() == name) return value;
    }
    fail(*node, "'" + std::string(key) + "' is " + allowed);
    return otherwise;
  }

  std::optional<Value> value(const toml::node& node);
  /// A value alone, a list of them, or {from, to, step | times}.
  std::vector<Value> values(const toml::node& node);
  Expression expression(const toml::node& node);

 private:
  std::optional<std::string> word(const toml::node& node);
  Expression parsed(const std::string& text, const toml::node& node);
  std::vector<Value> range_values(const toml::table& range);

  std::string path_;
  std::optional<Error> error_;
};

}  // namespace pinch::sweep
