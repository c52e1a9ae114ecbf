// Reads an expression: recursive descent, one function a level of the table in expression.h.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "src/core/file_error.h"
#include "workbench/sweep/expression.h"

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

}  // namespace pinch::sweep
