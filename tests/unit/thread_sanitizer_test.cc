// Built in the tree under TSan only: the race planted here must end the program, or TSan is not at work.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

namespace pinch {
namespace {

TEST(ThreadSanitizerDeathTest, ReportsARace) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        int counted = 0;
        std::thread other([&] { ++counted; });
        ++counted;
        other.join();
        std::exit(counted > 2 ? 1 : 0);  // TSan's own code replaces 0 where it reported
      },
      testing::ExitedWithCode(66), "data race");
}

}  // namespace
}  // namespace pinch
