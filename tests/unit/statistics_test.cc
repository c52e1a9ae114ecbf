#include "workbench/measure/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace pinch::measure {
namespace {

TEST(Statistics, QuartilesAreLinearBetweenOrderStatistics) {
  const Summary summary = summarize({4, 1, 3, 2});
  EXPECT_EQ(summary.count, 4U);
  EXPECT_DOUBLE_EQ(summary.min, 1);
  EXPECT_DOUBLE_EQ(summary.q1, 1.75);
  EXPECT_DOUBLE_EQ(summary.median, 2.5);
  EXPECT_DOUBLE_EQ(summary.q3, 3.25);
  EXPECT_DOUBLE_EQ(summary.max, 4);
}

TEST(Statistics, OneOutlierDoesNotMoveTheMedian) {
  EXPECT_DOUBLE_EQ(summarize({10, 11, 12, 13, 1e9}).median, 12);
}

TEST(Statistics, NothingHasACountOfZeroAndIsNotPrecise) {
  EXPECT_EQ(summarize({}).count, 0U);
  EXPECT_TRUE(std::isinf(relative_noise({})));
  EXPECT_TRUE(std::isinf(spread({}, {1})));
}

// Ranks from the binomial tables every textbook prints for the sign test at 95%.
TEST(Statistics, MedianIntervalTakesTheTabulatedRanks) {
  const auto ranks = [](int n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), 1.0);
    return median_interval(values);
  };
  EXPECT_EQ(ranks(1).low, 1);
  EXPECT_EQ(ranks(5).low, 1);
  EXPECT_EQ(ranks(6).low, 1);
  EXPECT_EQ(ranks(8).low, 1);
  EXPECT_EQ(ranks(9).low, 2);
  EXPECT_EQ(ranks(12).low, 3);
  EXPECT_EQ(ranks(20).low, 6);
  EXPECT_EQ(ranks(20).high, 15);
  EXPECT_EQ(ranks(100).low, 40);
  EXPECT_EQ(ranks(100).high, 61);
}

TEST(Statistics, MedianIntervalCoversTheMedianOfSkewedTimes) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> times(0, 0.5);  // median 1
  int covered = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values(15);
    std::generate(values.begin(), values.end(), [&] { return times(random); });
    std::sort(values.begin(), values.end());
    const Interval interval = median_interval(values);
    covered += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, 0.95 * kTrials);
}

TEST(Statistics, NoiseIsHalfTheIntervalOverTheMedian) {
  EXPECT_DOUBLE_EQ(relative_noise({90, 100, 110}), 0.1);
  EXPECT_DOUBLE_EQ(relative_noise({7}), 0);
}

TEST(Statistics, SpreadComparesTwoRunsOfOneSubject) {
  EXPECT_DOUBLE_EQ(spread({100, 102, 98}, {80, 80, 80}), 0.25);
  EXPECT_DOUBLE_EQ(spread({1, 2, 3}, {3, 2, 1}), 0);
}

}  // namespace
}  // namespace pinch::measure
