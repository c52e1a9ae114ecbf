// A regular expression that a user gave.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pinch/result.h"

namespace re2 {
class RE2;
}

namespace pinch {

/// An expression in RE2's syntax: that of Perl and Python without back-references and look-around. A search takes time
/// linear in the text and a bounded stack whatever the two are; std::regex recurses once a character and tries nested
/// repeats in exponential time. Copies share the compiled expression.
class Pattern {
 public:
  /// Errors: kInvalidArgument with "'EXPRESSION' is no regular expression: " and why, at `where`.
  static Result<Pattern> compile(std::string_view expression, std::string_view where);

  /// Whether the text has a match anywhere, as grep does.
  [[nodiscard]] bool found_in(std::string_view text) const;
  /// What the first group holds in the first match, empty where that group took no part; nothing without a match. At
  /// least one group.
  [[nodiscard]] std::optional<std::string_view> first_group(std::string_view text) const;
  [[nodiscard]] int groups() const;
  [[nodiscard]] const std::string& expression() const;

 private:
  explicit Pattern(std::shared_ptr<const re2::RE2> compiled) : compiled_(std::move(compiled)) {}

  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace pinch
