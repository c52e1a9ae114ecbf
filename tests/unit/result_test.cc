#include "pinch/result.h"

#include <gtest/gtest.h>

namespace pinch {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error{ErrorCode::kInvalidArgument, "odd", "value"};
  return value / 2;
}

Result<int> quarter(int value) {
  PINCH_ASSIGN(once, half(value));
  PINCH_TRY(half(once));
  return half(once);
}

TEST(Result, HoldsTheValueOfASuccess) {
  EXPECT_EQ(quarter(12).value(), 3);
}

TEST(Result, PassesTheFirstErrorOn) {
  const auto result = quarter(6);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message(), "value: odd");
}

}  // namespace
}  // namespace pinch
