// What an expression can still become while some of its names are open.
#include <algorithm>
#include <cmath>
#include <optional>

#include "workbench/sweep/expression.h"

namespace pinch::sweep {

// Interval arithmetic. A result that is not finite, beyond what a double counts exactly, or of unknown kind is unknown.
class BoundsEvaluator {
 public:
  BoundsEvaluator(const Expression& expression, std::span<const Value* const> values, std::span<const Bounds> bounds)
      : expression_(expression), values_(values), bounds_(bounds) {}

  Possible root() { return truth(at(expression_.nodes_.size() - 1)); }
  Bounds number() { return at(expression_.nodes_.size() - 1).number.value_or(Bounds{}); }

 private:
  using Op = Expression::Op;
  using Node = Expression::Node;
  static constexpr double kExact = 9007199254740992;  // 2^53

  // Either a number's bounds, or a truth value, or a fixed value, or (none of them) unknown.
  struct Known {
    std::optional<Bounds> number;
    std::optional<Possible> truth;
    const Value* value = nullptr;
  };

  static Possible truth(const Known& known) { return known.truth.value_or(Possible{}); }
  static Known of_bounds(double low, double high) {
    if (!(std::abs(low) < kExact && std::abs(high) < kExact)) return {};
    return {Bounds{low, high}, std::nullopt, nullptr};
  }
  static Known of_truth(bool yes, bool no) { return {std::nullopt, Possible{yes, no}, nullptr}; }
  static Known of_value(const Value& value) {
    Known known;
    known.value = &value;
    if (const auto* flag = std::get_if<bool>(&value)) {
      known.truth = Possible{*flag, !*flag};
    } else if (!std::holds_alternative<std::string>(value) && std::abs(number_of(value)) < kExact) {
      known.number = Bounds{number_of(value), number_of(value)};
    }
    return known;
  }

  Known at(std::size_t index) {
    const Node& node = expression_.nodes_[index];
    switch (node.op) {
      case Op::kConstant:
        return of_value(node.constant);
      case Op::kName: {
        if (values_[node.name] != nullptr) return of_value(*values_[node.name]);
        const Bounds& bounds = bounds_[node.name];
        return of_bounds(bounds.low, bounds.high);
      }
      case Op::kNot: {
        const Known inside = at(node.inputs[0]);
        if (!inside.truth) return {};
        return of_truth(inside.truth->no, inside.truth->yes);
      }
      case Op::kOr: {
        const Possible left = truth(at(node.inputs[0])), right = truth(at(node.inputs[1]));
        return of_truth(left.yes || right.yes, left.no && right.no);
      }
      case Op::kAnd: {
        const Possible left = truth(at(node.inputs[0])), right = truth(at(node.inputs[1]));
        return of_truth(left.yes && right.yes, left.no || right.no);
      }
      default:
        break;
    }
    Known total = at(node.inputs[0]);
    if (node.inputs.size() == 1) {
      if (!total.number) return {};
      const auto [low, high] = *total.number;
      if (node.op == Op::kNegate) return of_bounds(-high, -low);
      if (node.op == Op::kAbs) return of_bounds(low > 0 ? low : (high < 0 ? -high : 0), std::max(-low, high));
      return total;
    }
    for (std::size_t i = 1; i < node.inputs.size(); ++i) total = combine(node.op, total, at(node.inputs[i]));
    return total;
  }

  static Known combine(Op op, const Known& left, const Known& right) {
    if (op == Op::kEqual || op == Op::kUnequal) return equality(op, left, right);
    if (!left.number || !right.number) return {};
    const auto [a, b] = *left.number;
    const auto [c, d] = *right.number;
    switch (op) {
      case Op::kLess:
        return of_truth(a < d, b >= c);
      case Op::kLessEqual:
        return of_truth(a <= d, b > c);
      case Op::kGreater:
        return of_truth(b > c, a <= d);
      case Op::kGreaterEqual:
        return of_truth(b >= c, a < d);
      case Op::kAdd:
        return of_bounds(a + c, b + d);
      case Op::kSubtract:
        return of_bounds(a - d, b - c);
      case Op::kMultiply:
        return corners(a * c, a * d, b * c, b * d);
      case Op::kMin:
        return of_bounds(std::min(a, c), std::min(b, d));
      case Op::kMax:
        return of_bounds(std::max(a, c), std::max(b, d));
      default:
        break;
    }
    if (c <= 0) return {};  // a divisor that may be 0 or change the sign
    switch (op) {
      case Op::kDivide:
        return corners(a / c, a / d, b / c, b / d);
      case Op::kFloorDiv:
        return corners(std::floor(a / c), std::floor(a / d), std::floor(b / c), std::floor(b / d));
      case Op::kCeilDiv:
        return corners(std::ceil(a / c), std::ceil(a / d), std::ceil(b / c), std::ceil(b / d));
      default:  // kModulo: exact where both are fixed, else below the divisor
        if (a == b && c == d) return of_bounds(a - c * std::floor(a / c), a - c * std::floor(a / c));
        return of_bounds(0, a >= 0 ? std::min(b, std::ceil(d) - 1) : std::ceil(d) - 1);
    }
  }
  static Known corners(double a, double b, double c, double d) {
    return of_bounds(std::min({a, b, c, d}), std::max({a, b, c, d}));
  }
  static Known equality(Op op, const Known& left, const Known& right) {
    bool yes = true, no = true;
    if (left.number && right.number) {
      const auto [a, b] = *left.number;
      const auto [c, d] = *right.number;
      yes = a <= d && c <= b;
      no = !(a == b && c == d && a == c);
    } else if (left.value != nullptr && right.value != nullptr) {
      yes = same(*left.value, *right.value);
      no = !yes;
    }
    return op == Op::kEqual ? of_truth(yes, no) : of_truth(no, yes);
  }

  const Expression& expression_;
  std::span<const Value* const> values_;
  std::span<const Bounds> bounds_;
};

Bounds Expression::bounds(std::span<const Value* const> values, std::span<const Bounds> of_names) const {
  return BoundsEvaluator(*this, values, of_names).number();
}

Possible Expression::possible(std::span<const Value* const> values, std::span<const Bounds> bounds) const {
  return BoundsEvaluator(*this, values, bounds).root();
}

}  // namespace pinch::sweep
