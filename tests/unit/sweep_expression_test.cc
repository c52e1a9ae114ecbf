#include "workbench/sweep/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace pinch::sweep {
namespace {

using testing::HasSubstr;

using Names = std::map<std::string, Value>;

Result<Value> evaluate(const std::string& text, const Names& names = {}) {
  PINCH_ASSIGN(expression, Expression::parse(text, "FILE:3"));
  std::vector<const Value*> values;
  for (const std::string& name : expression.names()) values.push_back(&names.at(name));
  return expression.evaluate(values);
}
std::string result_of(const std::string& text, const Names& names = {}) {
  const auto value = evaluate(text, names);
  return value.ok() ? to_string(*value) : value.error().message();
}

TEST(SweepExpression, FollowsPrecedence) {
  EXPECT_EQ(result_of("1 + 2 * 3"), "7");
  EXPECT_EQ(result_of("(1 + 2) * 3"), "9");
  EXPECT_EQ(result_of("10 - 4 - 3"), "3");
  EXPECT_EQ(result_of("-2 * -3"), "6");
  EXPECT_EQ(result_of("not 1 == 2 and 3 <= 3"), "true");
  EXPECT_EQ(result_of("true or true and false"), "true");
  EXPECT_EQ(result_of("1 + 1 == 2 or false"), "true");
}

TEST(SweepExpression, DividesAsItsNamesSay) {
  EXPECT_EQ(result_of("7 / 2"), "3.5");
  EXPECT_EQ(result_of("floor_div(7, 2)"), "3");
  EXPECT_EQ(result_of("ceil_div(7, 2)"), "4");
  EXPECT_EQ(result_of("floor_div(-7, 2)"), "-4");
  EXPECT_EQ(result_of("ceil_div(-7, 2)"), "-3");
  EXPECT_EQ(result_of("-7 % 2"), "1");
  EXPECT_EQ(result_of("7 % -2"), "-1");
  EXPECT_EQ(result_of("8 % 2"), "0");
}

TEST(SweepExpression, ReadsNamesTextsAndFunctions) {
  const Names names = {{"tile", std::int64_t{64}}, {"layout", std::string("row")}, {"scale", 0.5}};
  EXPECT_EQ(result_of("min(tile, 32, 48)", names), "32");
  EXPECT_EQ(result_of("max(tile, 0.5)", names), "64");
  EXPECT_EQ(result_of("abs(-3)"), "3");
  EXPECT_EQ(result_of("layout == 'row' and tile % 16 == 0", names), "true");
  EXPECT_EQ(result_of("layout != \"row\"", names), "false");
  EXPECT_EQ(result_of("scale * 4 == 2", names), "true");
  EXPECT_EQ(result_of("layout == 2", names), "false");
}

TEST(SweepExpression, LooksNoFurtherThanItMust) {
  const Names zero = {{"tile", std::int64_t{0}}};
  EXPECT_EQ(result_of("tile == 0 or 8 % tile == 0", zero), "true");
  EXPECT_EQ(result_of("tile != 0 and 8 % tile == 0", zero), "false");
}

TEST(SweepExpression, NamesWhatItCannotRead) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "column 1 of \"\": unexpected_end"},
      {"1 +", "column 4 of \"1 +\": unexpected_end: a value is missing"},
      {"1 2", "column 3 of \"1 2\": unexpected_token: \"2\" where an operator can stand"},
      {"(1", "unexpected_end: \")\" is missing"},
      {"1 = 2", "column 3 of \"1 = 2\": unexpected_character: \"=\""},
      {"'open", "column 1 of \"'open\": unexpected_end: the text is not closed"},
      {"1 < 2 < 3", "comparisons do not chain"},
      {"log(2)", "column 1 of \"log(2)\": unknown_function: \"log\"; there are min max"},
      {"ceil_div(1)", "wrong_argument_count: ceil_div takes 2, not 1"},
      {"min()", "wrong_argument_count: min takes 1 or more, not 0"},
      {"9223372036854775808", "number_too_large"},
      {"1e999", "number_too_large"},
      {std::string(200, '('), "too_deep"},
      {std::string(200, '-') + "1", "too_deep"},
  };
  for (const auto& [text, says] : cases) {
    const auto value = evaluate(text);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.error().where, "FILE:3");
    EXPECT_THAT(value.error().message(), HasSubstr(says));
  }
  std::string sum = "1";
  for (int i = 0; i < 2000; ++i) sum += "+1";
  EXPECT_THAT(result_of(sum), HasSubstr("too_long"));
}

TEST(SweepExpression, NamesWhatItCannotEvaluate) {
  EXPECT_THAT(result_of("1 + true"),
              HasSubstr("column 3 of \"1 + true\": wrong_kind: a number needed, a boolean (true)"));
  EXPECT_THAT(result_of("1 and true"), HasSubstr("wrong_kind: a condition needed, an integer (1)"));
  EXPECT_THAT(result_of("1.5 % 2"), HasSubstr("wrong_kind: an integer needed, a number (1.5)"));
  EXPECT_THAT(result_of("1 % 0"), HasSubstr("column 3 of \"1 % 0\": division_by_zero"));
  EXPECT_THAT(result_of("1 / 0"), HasSubstr("division_by_zero"));
  EXPECT_THAT(result_of("9223372036854775807 + 1"), HasSubstr("overflow"));
  EXPECT_THAT(result_of("floor_div(0 - 9223372036854775807 - 1, -1)"), HasSubstr("overflow"));
  EXPECT_THAT(result_of("1e308 * 10"), HasSubstr("overflow"));
  const auto number = Expression::parse("1 + 1", "FILE:3");
  ASSERT_TRUE(number.ok());
  EXPECT_THAT(number->holds({}).error().message(), HasSubstr("a condition is needed, this gives an integer"));
}

TEST(SweepExpression, OffersTheNamesThereAre) {
  const auto expression = Expression::parse("tile_n > til_m", "FILE:3");
  ASSERT_TRUE(expression.ok());
  const std::vector<std::string> allowed = {"tile_m", "tile_n"};
  EXPECT_THAT(
      expression->unknown_name(1, allowed).message(),
      HasSubstr("column 10 of \"tile_n > til_m\": unknown_name: \"til_m\" is no knob, problem axis or [let] name; "
                "did you mean tile_m"));
}

TEST(SweepExpression, BoundsDecideWhatNoCompletionChanges) {
  const auto check = [](const std::string& text, Bounds x, bool yes, bool no) {
    const auto expression = Expression::parse(text, "");
    ASSERT_TRUE(expression.ok()) << text;
    const Value* open[] = {nullptr};
    const Bounds bounds[] = {x};
    const Possible possible = expression->possible(std::span(open, expression->names().size()), bounds);
    EXPECT_EQ(possible.yes, yes) << text;
    EXPECT_EQ(possible.no, no) << text;
  };
  check("x * x > 100", {1, 8}, false, true);
  check("x + 1 <= 9", {1, 8}, true, false);
  check("x % 4 < 4", {1, 8}, true, false);
  check("ceil_div(x, 8) == 1", {1, 8}, true, false);
  check("x == 9 or x > 20", {1, 8}, false, true);
  check("x == 4", {1, 8}, true, true);
  check("not (x < 100)", {1, 8}, false, true);
  check("8 / (x - 1) > 100", {1, 8}, true, true);  // the divisor may be 0
}

// Whatever a completion gives, the bounds must not have excluded: random expressions over all values of two names.
TEST(SweepExpression, BoundsNeverExcludeACompletion) {
  std::mt19937 random(7);
  const auto any = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::function<std::string(int)> number = [&](int depth) -> std::string {
    if (depth == 0) return std::vector<std::string>{"x", "y", "3", "0", "-2", "1.5"}[static_cast<std::size_t>(any(6))];
    static const std::vector<std::string> operators = {"+", "-", "*", "/", "%"};
    switch (any(4)) {
      case 0:
        return "min(" + number(depth - 1) + ", " + number(depth - 1) + ")";
      case 1:
        return "floor_div(" + number(depth - 1) + ", " + number(depth - 1) + ")";
      case 2:
        return "abs(" + number(depth - 1) + ")";
      default:
        return "(" + number(depth - 1) + " " + operators[static_cast<std::size_t>(any(5))] + " " + number(depth - 1) +
               ")";
    }
  };
  std::function<std::string(int)> condition = [&](int depth) -> std::string {
    static const std::vector<std::string> comparisons = {"<", "<=", ">", ">=", "==", "!="};
    if (depth == 0 || any(3) == 0) {
      return number(2) + " " + comparisons[static_cast<std::size_t>(any(6))] + " " + number(2);
    }
    if (any(3) == 0) return "not (" + condition(depth - 1) + ")";
    return "(" + condition(depth - 1) + (any(2) == 0 ? " and " : " or ") + condition(depth - 1) + ")";
  };
  int decided = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const std::string text = condition(2);
    const auto expression = Expression::parse(text, "");
    ASSERT_TRUE(expression.ok()) << text;
    const std::int64_t x_low = any(9) - 4, y_low = any(9) - 4;
    const std::int64_t x_high = x_low + any(4), y_high = y_low + any(4);
    std::vector<const Value*> open(expression->names().size());
    std::vector<Bounds> bounds;
    for (const std::string& name : expression->names()) {
      bounds.push_back(name == "x" ? Bounds{static_cast<double>(x_low), static_cast<double>(x_high)}
                                   : Bounds{static_cast<double>(y_low), static_cast<double>(y_high)});
    }
    const Possible possible = expression->possible(open, bounds);
    decided += possible.yes != possible.no ? 1 : 0;
    for (std::int64_t x = x_low; x <= x_high; ++x) {
      for (std::int64_t y = y_low; y <= y_high; ++y) {
        const Value vx = x, vy = y;
        std::vector<const Value*> values;
        for (const std::string& name : expression->names()) values.push_back(name == "x" ? &vx : &vy);
        const auto holds = expression->holds(values);
        if (!holds.ok()) continue;
        ASSERT_TRUE(*holds ? possible.yes : possible.no) << text << " at x " << x << " y " << y;
        const Possible fixed = expression->possible(values, bounds);
        ASSERT_TRUE(*holds ? fixed.yes : fixed.no) << text << " at x " << x << " y " << y;
      }
    }
  }
  EXPECT_GT(decided, 400) << "bounds that decide nothing would pass this test";
}

}  // namespace
}  // namespace pinch::sweep
