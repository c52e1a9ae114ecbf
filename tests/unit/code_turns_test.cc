#include "tests/gpu/support/code_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace pinch::gpu_test {
namespace {

constexpr char kKernels[3] = {};
constexpr Code kNone = nullptr, kA = &kKernels[0], kB = &kKernels[1], kC = &kKernels[2];

struct Count {
  int timed_after_itself = 0, between = 0, needless = 0;
};

// Shuffled rounds as sm90_time runs them, with or without the launches between. Judged by the list of launches alone.
Count count(const std::vector<Code>& captures, bool with_turns) {
  std::mt19937 random{7};
  CodeTurns turns(captures);
  std::vector<int> order(captures.size());
  std::iota(order.begin(), order.end(), 0);
  Count seen;
  Code last = kNone;
  const auto launch = [&](Code code) {
    if (code != kNone) last = code;
  };
  for (int round = 0; round < 200; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const int i : order) {
      const Code code = captures[static_cast<std::size_t>(i)];
      if (with_turns) {
        if (const auto other = turns.before(i, random)) {
          ++seen.between;
          if (last != code) ++seen.needless;
          launch(captures[static_cast<std::size_t>(*other)]);
        }
      }
      if (code != kNone && code == last) ++seen.timed_after_itself;
      launch(code);
    }
  }
  return seen;
}

// Yardsticks, cuBLAS (C), four finalists and the A/A twin: three of one kernel, then all five.
const std::vector<Code> kFinal{kNone, kNone, kC, kA, kA, kB, kB, kA};
const std::vector<Code> kOneKernel{kNone, kNone, kC, kA, kA, kA, kA, kA};

TEST(CodeTurns, NothingIsTimedAfterItself) {
  for (const auto& captures : {kFinal, kOneKernel}) {
    EXPECT_GT(count(captures, false).timed_after_itself, 200);  // without them it is common, and this test sees it
    const Count seen = count(captures, true);
    EXPECT_EQ(seen.timed_after_itself, 0);
    EXPECT_GT(seen.between, 200);
    EXPECT_EQ(seen.needless, 0);
  }
}

TEST(CodeTurns, NothingIsAddedWhereNoKernelComesTwiceOrThereIsNoOther) {
  std::mt19937 random{1};
  const std::vector<Code> one{kNone, kA, kA};
  CodeTurns alone(one);
  EXPECT_EQ(alone.before(1, random), std::nullopt);
  EXPECT_EQ(alone.before(2, random), std::nullopt);

  const std::vector<Code> two{kNone, kA, kB};
  CodeTurns turns(two);
  EXPECT_EQ(turns.before(1, random), std::nullopt);
  EXPECT_EQ(turns.before(2, random), std::nullopt);
  EXPECT_EQ(turns.before(1, random), std::nullopt);
  EXPECT_EQ(turns.before(0, random), std::nullopt);
  EXPECT_EQ(turns.before(0, random), std::nullopt);
  EXPECT_EQ(turns.before(1, random), 2) << "an empty kernel between leaves the code where it is";
}

}  // namespace
}  // namespace pinch::gpu_test
