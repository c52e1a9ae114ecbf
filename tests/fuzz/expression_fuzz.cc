// Any text is either refused with a column, or evaluates the same twice and inside what its bounds allow.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/fuzz/require.h"
#include "workbench/sweep/expression.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pinch::sweep;
  const auto expression = Expression::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!expression.ok()) {
    require(expression.error().message().rfind("fuzz: column ", 0) == 0);
    return 0;
  }
  const std::vector<Value> choices = {
      std::int64_t{0}, std::int64_t{64}, std::int64_t{-3}, 0.5, std::string("row"), true};
  std::vector<const Value*> values, open;
  std::vector<Bounds> bounds;
  for (std::size_t i = 0; i < expression->names().size(); ++i) {
    const Value& value = choices[i % choices.size()];
    values.push_back(&value);
    const bool number = value.index() == 1 || value.index() == 2;
    open.push_back(number ? nullptr : &value);
    bounds.push_back(number ? Bounds{number_of(value) - 2, number_of(value) + 3} : Bounds{});
  }
  const auto holds = expression->holds(values);
  if (!holds.ok()) return 0;
  require(expression->holds(values).value() == *holds);
  const Possible possible = expression->possible(open, bounds);
  require(*holds ? possible.yes : possible.no);
  return 0;
}
