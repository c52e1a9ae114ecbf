#include "pinch/assert.h"

#include <gtest/gtest.h>

namespace pinch {
namespace {

TEST(Assert, PassesAndEvaluatesTheConditionOnce) {
  int evaluations = 0;
  PINCH_ASSERT(++evaluations == 1, "the first evaluation");
  EXPECT_EQ(evaluations, 1);
}

TEST(AssertDeathTest, StopsTheProgramNamingPlaceConditionAndReason) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(PINCH_ASSERT(1 + 1 == 3, "sums are right"),
               "^assert_test\\.cc:[0-9]+: assertion failed: 1 \\+ 1 == 3: sums are right\n$");
}

}  // namespace
}  // namespace pinch
