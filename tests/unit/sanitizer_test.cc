// Built in the sanitised trees only: faults planted here must end the program, or the sanitisers are not at work.
#include <gtest/gtest.h>

#include <limits>
#include <memory>

namespace pinch {
namespace {

class SanitizerDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(SanitizerDeathTest, AddressReportsAReadPastTheHeap) {
  const auto bytes = std::make_unique<char[]>(16);
  const volatile int past = 16;
  EXPECT_DEATH((void)*static_cast<const volatile char*>(bytes.get() + past), "heap-buffer-overflow");
}

TEST_F(SanitizerDeathTest, UndefinedReportsASignedOverflow) {
  volatile int largest = std::numeric_limits<int>::max();
  EXPECT_DEATH(largest = largest + 1, "signed integer overflow");
}

}  // namespace
}  // namespace pinch
