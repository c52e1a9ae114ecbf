#include "workbench/sweep/expression.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/file_error.h"
#include "src/core/nearest.h"

namespace pinch::sweep {

Error Expression::error_at(std::size_t column, std::string_view rule, std::string_view what) const {
  return {ErrorCode::kInvalidArgument, fmt::format("column {} of {}: {}: {}", column, quote_name(text_), rule, what),
          where_};
}

Error Expression::unknown_name(std::size_t name, std::span<const std::string> allowed) const {
  const std::string known = did_you_mean(names_[name], allowed);
  return error_at(name_columns_[name], "unknown_name",
                  fmt::format("{} is no knob, problem axis or [let] name{}{}", quote_name(names_[name]),
                              known.empty() ? "" : "; ", known));
}

class ExpressionEvaluator {
 public:
  ExpressionEvaluator(const Expression& expression, std::span<const Value* const> values)
      : expression_(expression), values_(values) {}

  Result<Value> root() { return at(expression_.nodes_.size() - 1); }

 private:
  using Op = Expression::Op;
  using Node = Expression::Node;

  [[nodiscard]] Error wrong_kind(const Node& node, std::string_view needed, const Value& given) const {
    return expression_.error_at(node.column, "wrong_kind",
                                fmt::format("{} needed, {} ({}) given", needed, kind_of(given), to_string(given)));
  }
  Result<bool> truth(const Node& node, std::size_t input) {
    PINCH_ASSIGN(value, at(node.inputs[input]));
    if (const auto* flag = std::get_if<bool>(&value)) return *flag;
    return wrong_kind(node, "a condition", value);
  }
  static bool numeric(const Value& value) { return value.index() == 1 || value.index() == 2; }

  Result<Value> at(std::size_t index) {
    const Node& node = expression_.nodes_[index];
    switch (node.op) {
      case Op::kConstant:
        return node.constant;
      case Op::kName:
        return *values_[node.name];
      case Op::kNot: {
        PINCH_ASSIGN(value, truth(node, 0));
        return Value(!value);
      }
      case Op::kOr:
      case Op::kAnd: {
        PINCH_ASSIGN(left, truth(node, 0));
        if (left == (node.op == Op::kOr)) return Value(left);
        PINCH_ASSIGN(right, truth(node, 1));
        return Value(right);
      }
      case Op::kEqual:
      case Op::kUnequal: {
        PINCH_ASSIGN(left, at(node.inputs[0]));
        PINCH_ASSIGN(right, at(node.inputs[1]));
        return Value(same(left, right) == (node.op == Op::kEqual));
      }
      default:
        return arithmetic(node);
    }
  }

  Result<Value> arithmetic(const Node& node) {
    PINCH_ASSIGN(first, at(node.inputs[0]));
    if (!numeric(first)) return wrong_kind(node, "a number", first);
    Value total = first;
    if (node.inputs.size() == 1) {
      if (node.op == Op::kNegate) return combine(node, Op::kSubtract, Value(std::int64_t{0}), total);
      if (node.op == Op::kAbs && number_of(total) < 0)
        return combine(node, Op::kSubtract, Value(std::int64_t{0}), total);
      return total;  // min and max of one
    }
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      PINCH_ASSIGN(right, at(node.inputs[i]));
      if (!numeric(right)) return wrong_kind(node, "a number", right);
      PINCH_ASSIGN(combined, combine(node, node.op, total, right));
      total = std::move(combined);
    }
    return total;
  }

  Result<Value> combine(const Node& node, Op op, const Value& left, const Value& right) {
    const auto* a = std::get_if<std::int64_t>(&left);
    const auto* b = std::get_if<std::int64_t>(&right);
    if (a != nullptr && b != nullptr && op != Op::kDivide) return integers(node, op, *a, *b);
    const double x = number_of(left), y = number_of(right);
    switch (op) {
      case Op::kLess:
        return Value(x < y);
      case Op::kLessEqual:
        return Value(x <= y);
      case Op::kGreater:
        return Value(x > y);
      case Op::kGreaterEqual:
        return Value(x >= y);
      case Op::kAdd:
        return finite(node, x + y);
      case Op::kSubtract:
        return finite(node, x - y);
      case Op::kMultiply:
        return finite(node, x * y);
      case Op::kDivide:
        if (y == 0) return expression_.error_at(node.column, "division_by_zero", fmt::format("{} / 0", x));
        return finite(node, x / y);
      case Op::kMin:
        return y < x ? right : left;
      case Op::kMax:
        return y > x ? right : left;
      default:
        return wrong_kind(node, "an integer", a == nullptr ? left : right);
    }
  }
  Result<Value> finite(const Node& node, double value) {
    if (std::isfinite(value)) return Value(value);
    return expression_.error_at(node.column, "overflow", "the result passes 1.8e308");
  }

  Result<Value> integers(const Node& node, Op op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    bool overflow = false;
    switch (op) {
      case Op::kLess:
        return Value(a < b);
      case Op::kLessEqual:
        return Value(a <= b);
      case Op::kGreater:
        return Value(a > b);
      case Op::kGreaterEqual:
        return Value(a >= b);
      case Op::kAdd:
        overflow = __builtin_add_overflow(a, b, &result);
        break;
      case Op::kSubtract:
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
      case Op::kMultiply:
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
      case Op::kMin:
        return Value(std::min(a, b));
      case Op::kMax:
        return Value(std::max(a, b));
      default: {  // kModulo, kFloorDiv, kCeilDiv
        if (b == 0) return expression_.error_at(node.column, "division_by_zero", fmt::format("{} by 0", a));
        overflow = a == std::numeric_limits<std::int64_t>::min() && b == -1;
        if (overflow) break;
        const std::int64_t rest = a % b;
        const bool inexact = rest != 0;
        const bool below = inexact && (rest < 0) != (b < 0);  // the exact quotient lies below the truncated one
        if (op == Op::kModulo) {
          result = below ? rest + b : rest;
        } else if (op == Op::kFloorDiv) {
          result = a / b - (below ? 1 : 0);
        } else {
          result = a / b + (inexact && !below ? 1 : 0);
        }
      }
    }
    if (overflow) return expression_.error_at(node.column, "overflow", "the result passes 64 bits");
    return Value(result);
  }

  const Expression& expression_;
  std::span<const Value* const> values_;
};

Result<Value> Expression::evaluate(std::span<const Value* const> values) const {
  return ExpressionEvaluator(*this, values).root();
}

Result<bool> Expression::holds(std::span<const Value* const> values) const {
  PINCH_ASSIGN(value, evaluate(values));
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  return error_at(1, "wrong_kind", fmt::format("a condition is needed, this gives {}", kind_of(value)));
}

}  // namespace pinch::sweep
