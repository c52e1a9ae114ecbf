#include "pinch/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

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

TEST(Result, MovesAValueOut) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

TEST(Result, VoidHoldsSuccessOrAnError) {
  EXPECT_TRUE(Result<void>().ok());
  const Result<void> failed = Error{ErrorCode::kIo, "disk full", "out.bin"};
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_EQ(failed.error().message(), "out.bin: disk full");
}

TEST(ResultDeathTest, TheSideThatIsNotHeldStopsTheProgramAndSaysWhy) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH((void)quarter(6).value(), "value: odd");
  EXPECT_DEATH((void)*quarter(6), "value: odd");
  EXPECT_DEATH((void)quarter(12).error(), "on a failure only");
  EXPECT_DEATH((void)Result<void>().error(), "on a failure only");
}

}  // namespace
}  // namespace pinch
