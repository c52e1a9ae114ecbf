// The language of constraints, contracts and derived values: arithmetic, comparison and logic over knobs and problem.
//
//   or  and  not  == != < <= > >=  + -  * / %  -x  ( )  min max ceil_div floor_div abs  12  0.5  'text'  true  false
//   name
//
// from the loosest to the tightest. Integers stay integers, with overflow refused; `/` always gives a number with a
// fraction, ceil_div and floor_div divide integers; `a % b` is the remainder of floor_div(a, b). `and` and `or` do not
// look at their right side where the left one decides. Comparisons do not chain. Errors say "column N: rule: what":
//
//   unexpected_character  unexpected_end  unexpected_token  number_too_large  too_deep  too_long   when it is
//   read
//   unknown_function      wrong_argument_count              unknown_name
//   wrong_kind            division_by_zero                  overflow                     when it is evaluated
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/result.h"
#include "workbench/sweep/value.h"

namespace pinch::sweep {

/// What is known of a name whose value is not chosen yet: a number in [low, high], or nothing.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

/// Which truth values a condition can still take.
struct Possible {
  bool yes = true;
  bool no = true;
};

class Expression {
 public:
  /// `where` begins every message: the file and line it stands in.
  static Result<Expression> parse(std::string_view text, std::string where);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::string& where() const { return where_; }
  /// The names it reads, each once, in the order they appear. evaluate() takes their values in this order.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// The error of a name that does not exist, at its place, with the ones that do.
  [[nodiscard]] Error unknown_name(std::size_t name, std::span<const std::string> allowed) const;

  [[nodiscard]] Result<Value> evaluate(std::span<const Value* const> values) const;
  /// The same where a truth value is needed: another kind is the error wrong_kind.
  [[nodiscard]] Result<bool> holds(std::span<const Value* const> values) const;
  /// What the truth value can be while some values are open: null pointers in `values`, whose `bounds` then count.
  /// Never excludes a value that a completion gives; a completion that is an error counts as either.
  [[nodiscard]] Possible possible(std::span<const Value* const> values, std::span<const Bounds> bounds) const;
  /// The same for an expression that is a number; unbounded where nothing is known.
  [[nodiscard]] Bounds bounds(std::span<const Value* const> values, std::span<const Bounds> of_names) const;

 private:
  friend class ExpressionParser;
  friend class ExpressionEvaluator;
  friend class BoundsEvaluator;

  enum class Op : std::uint8_t {
    kConstant,
    kName,
    kNegate,
    kNot,
    kOr,
    kAnd,
    kEqual,
    kUnequal,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kModulo,
    kMin,
    kMax,
    kCeilDiv,
    kFloorDiv,
    kAbs
  };
  struct Node {
    Op op = Op::kConstant;
    std::size_t column = 0;  // from 1
    Value constant = false;
    std::size_t name = 0;             // index into names_
    std::vector<std::size_t> inputs;  // indices of nodes
  };
  [[nodiscard]] Error error_at(std::size_t column, std::string_view rule, std::string_view what) const;

  std::string text_, where_;
  std::vector<std::string> names_;
  std::vector<std::size_t> name_columns_;
  std::vector<Node> nodes_;  // inputs before what uses them
};

}  // namespace pinch::sweep
