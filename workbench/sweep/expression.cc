#include "workbench/sweep/expression.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "src/core/file_error.h"
#include "src/core/nearest.h"

namespace pinch::sweep {
namespace {

constexpr int kDeepest = 100;
constexpr std::size_t kLongest = 1000;  // values and operators; evaluating recurses that deep in the worst case

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

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

// --- Reading --------------------------------------------------------------------------------------------------------

// Recursive descent, one function a level of the table in the header.
class ExpressionParser {
 public:
  explicit ExpressionParser(Expression& out) : out_(out), text_(out.text_) {}

  Result<void> parse() {
    PINCH_TRY(next());
    PINCH_TRY(disjunction());
    if (kind_ != Token::kEnd) return unexpected("an operator");
    return {};
  }

 private:
  using Op = Expression::Op;
  using Node = Expression::Node;
  using Index = Result<std::size_t>;
  enum class Token : std::uint8_t { kEnd, kNumber, kText, kName, kSymbol };

  struct Function {
    std::string_view name;
    Op op;
    std::size_t least, most;
  };
  static constexpr std::array<Function, 5> kFunctions = {{{"min", Op::kMin, 1, 64},
                                                          {"max", Op::kMax, 1, 64},
                                                          {"ceil_div", Op::kCeilDiv, 2, 2},
                                                          {"floor_div", Op::kFloorDiv, 2, 2},
                                                          {"abs", Op::kAbs, 1, 1}}};

  [[nodiscard]] Error unexpected(std::string_view wanted) const {
    if (kind_ == Token::kEnd) return out_.error_at(start_ + 1, "unexpected_end", fmt::format("{} is missing", wanted));
    return out_.error_at(start_ + 1, "unexpected_token",
                         fmt::format("{} where {} can stand", quote_name(token_), wanted));
  }

  Result<void> number() {
    const char* begin = text_.data() + start_;
    const char* end = text_.data() + text_.size();
    std::int64_t integer = 0;
    double real = 0;
    const auto whole = std::from_chars(begin, end, integer);
    const auto fraction = std::from_chars(begin, end, real);
    if (fraction.ptr > whole.ptr) {
      if (fraction.ec != std::errc())
        return out_.error_at(start_ + 1, "number_too_large", "a number is at most 1.8e308");
      value_ = real;
    } else {
      if (whole.ec != std::errc()) {
        return out_.error_at(start_ + 1, "number_too_large", "an integer is at most 9223372036854775807");
      }
      value_ = integer;
    }
    at_ = static_cast<std::size_t>(fraction.ptr - text_.data());
    kind_ = Token::kNumber;
    return {};
  }

  Result<void> next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
    start_ = at_;
    if (out_.nodes_.size() > kLongest) {
      return out_.error_at(start_ + 1, "too_long", "more than 1000 values and operators");
    }
    if (at_ == text_.size()) {
      kind_ = Token::kEnd;
      token_ = {};
      return {};
    }
    const char c = text_[at_];
    if (is_digit(c)) {
      PINCH_TRY(number());
    } else if (is_name_start(c)) {
      while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
      kind_ = Token::kName;
    } else if (c == '\'' || c == '"') {
      const auto close = text_.find(c, at_ + 1);
      if (close == std::string_view::npos) return out_.error_at(start_ + 1, "unexpected_end", "the text is not closed");
      value_ = std::string(text_.substr(at_ + 1, close - at_ - 1));
      at_ = close + 1;
      kind_ = Token::kText;
    } else {
      static constexpr std::array<std::string_view, 14> kSymbols = {"==", "!=", "<=", ">=", "<", ">", "+",
                                                                    "-",  "*",  "/",  "%",  "(", ")", ","};
      const auto found = std::find_if(kSymbols.begin(), kSymbols.end(), [&](std::string_view symbol) {
        return text_.substr(at_, symbol.size()) == symbol;
      });
      if (found == kSymbols.end()) {
        return out_.error_at(
            start_ + 1, "unexpected_character",
            fmt::format("{}; operators are or and not == != < <= > >= + - * / %", quote_name(text_.substr(at_, 1))));
      }
      at_ += found->size();
      kind_ = Token::kSymbol;
    }
    token_ = text_.substr(start_, at_ - start_);
    return {};
  }

  [[nodiscard]] bool is(std::string_view token) const {
    return token_ == token && (kind_ == Token::kSymbol || kind_ == Token::kName);
  }

  std::size_t add(Op op, std::size_t column, std::vector<std::size_t> inputs) {
    Node node;
    node.op = op;
    node.column = column;
    node.inputs = std::move(inputs);
    out_.nodes_.push_back(std::move(node));
    return out_.nodes_.size() - 1;
  }

  using Level = Index (ExpressionParser::*)();
  struct Operator {
    std::string_view token;
    Op op;
  };
  // Left-associative operators of one level; `once` where they do not chain.
  Index chain(Level operand, std::span<const Operator> operators, bool once = false) {
    PINCH_ASSIGN(left, (this->*operand)());
    std::size_t tree = left;
    for (bool first = true;; first = false) {
      const auto found =
          std::find_if(operators.begin(), operators.end(), [&](const Operator& each) { return is(each.token); });
      if (found == operators.end()) return tree;
      if (once && !first) return unexpected("and, or, or the end (comparisons do not chain)");
      const std::size_t column = start_ + 1;
      PINCH_TRY(next());
      PINCH_ASSIGN(right, (this->*operand)());
      tree = add(found->op, column, {tree, right});
    }
  }

  // Every recursion passes here or through unary and negation, which count it.
  Index disjunction() {
    if (++depth_ > kDeepest) return out_.error_at(start_ + 1, "too_deep", "nested more than 100 times");
    static constexpr std::array<Operator, 1> kOr = {{{"or", Op::kOr}}};
    auto result = chain(&ExpressionParser::conjunction, kOr);
    --depth_;
    return result;
  }
  Index conjunction() {
    static constexpr std::array<Operator, 1> kAnd = {{{"and", Op::kAnd}}};
    return chain(&ExpressionParser::negation, kAnd);
  }
  Index negation() { return prefix("not", Op::kNot, &ExpressionParser::negation, &ExpressionParser::comparison); }
  Index comparison() {
    static constexpr std::array<Operator, 6> kComparisons = {{{"==", Op::kEqual},
                                                              {"!=", Op::kUnequal},
                                                              {"<=", Op::kLessEqual},
                                                              {">=", Op::kGreaterEqual},
                                                              {"<", Op::kLess},
                                                              {">", Op::kGreater}}};
    return chain(&ExpressionParser::sum, kComparisons, /*once=*/true);
  }
  Index sum() {
    static constexpr std::array<Operator, 2> kSum = {{{"+", Op::kAdd}, {"-", Op::kSubtract}}};
    return chain(&ExpressionParser::term, kSum);
  }
  Index term() {
    static constexpr std::array<Operator, 3> kTerm = {{{"*", Op::kMultiply}, {"/", Op::kDivide}, {"%", Op::kModulo}}};
    return chain(&ExpressionParser::unary, kTerm);
  }
  Index unary() { return prefix("-", Op::kNegate, &ExpressionParser::unary, &ExpressionParser::primary); }

  Index prefix(std::string_view token, Op op, Level again, Level otherwise) {
    if (!is(token)) return (this->*otherwise)();
    if (++depth_ > kDeepest) return out_.error_at(start_ + 1, "too_deep", "nested more than 100 times");
    const std::size_t column = start_ + 1;
    PINCH_TRY(next());
    PINCH_ASSIGN(operand, (this->*again)());
    --depth_;
    return add(op, column, {operand});
  }

  Index constant(Value value) {
    const std::size_t index = add(Op::kConstant, start_ + 1, {});
    out_.nodes_[index].constant = std::move(value);
    PINCH_TRY(next());
    return index;
  }

  Index primary() {
    if (kind_ == Token::kNumber || kind_ == Token::kText) return constant(value_);
    if (is("true") || is("false")) return constant(token_ == "true");
    if (is("(")) {
      PINCH_TRY(next());
      PINCH_ASSIGN(inside, disjunction());
      PINCH_TRY(expect(")"));
      return inside;
    }
    if (kind_ != Token::kName || is("and") || is("or") || is("not")) return unexpected("a value");
    const std::string name(token_);
    const std::size_t column = start_ + 1;
    PINCH_TRY(next());
    if (is("(")) return call(name, column);
    const auto known = std::find(out_.names_.begin(), out_.names_.end(), name);
    const auto place = static_cast<std::size_t>(known - out_.names_.begin());
    if (known == out_.names_.end()) {
      out_.names_.push_back(name);
      out_.name_columns_.push_back(column);
    }
    const std::size_t index = add(Op::kName, column, {});
    out_.nodes_[index].name = place;
    return index;
  }

  Result<void> expect(std::string_view symbol) {
    if (!is(symbol)) return unexpected(quote_name(symbol));
    return next();
  }

  Index call(const std::string& name, std::size_t column) {
    const auto* function =
        std::find_if(kFunctions.begin(), kFunctions.end(), [&](const Function& each) { return each.name == name; });
    if (function == kFunctions.end()) {
      return out_.error_at(column, "unknown_function",
                           fmt::format("{}; there are min max ceil_div floor_div abs", quote_name(name)));
    }
    PINCH_TRY(next());
    std::vector<std::size_t> inputs;
    while (!is(")")) {
      if (!inputs.empty()) PINCH_TRY(expect(","));
      PINCH_ASSIGN(input, disjunction());
      inputs.push_back(input);
    }
    PINCH_TRY(next());
    if (inputs.size() < function->least || inputs.size() > function->most) {
      return out_.error_at(column, "wrong_argument_count",
                           fmt::format("{} takes {}{}, not {}", name, function->least,
                                       function->most > function->least ? " or more" : "", inputs.size()));
    }
    return add(function->op, column, std::move(inputs));
  }

  Expression& out_;
  std::string_view text_;
  std::size_t at_ = 0, start_ = 0;
  std::string_view token_;
  Token kind_ = Token::kEnd;
  Value value_ = false;
  int depth_ = 0;
};

Result<Expression> Expression::parse(std::string_view text, std::string where) {
  Expression expression;
  expression.text_ = text;
  expression.where_ = std::move(where);
  PINCH_TRY(ExpressionParser(expression).parse());
  return expression;
}

// --- Evaluating -----------------------------------------------------------------------------------------------------

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

// --- Bounds ---------------------------------------------------------------------------------------------------------

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
