// Coordinate descent, which fits the cost models' constants.
#include "workbench/calibrate/descent.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pinch::calibrate {
namespace {

TEST(Descend, FindsConstantsThatExplainTheirProducts) {
  const std::vector<double> wanted{3, 40, 500};
  std::vector<double> values(3, 10);
  descend(values, {true, true, true}, [&](std::size_t) {
    const double sum = std::abs(std::log(values[0] * values[1] / (wanted[0] * wanted[1]))) +
                       std::abs(std::log((values[1] + values[2]) / (wanted[1] + wanted[2]))) +
                       2 * std::abs(std::log(values[0] / wanted[0]));
    return sum;
  });
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(values[i] / wanted[i], 1, 0.03) << i;
}

TEST(Descend, LeavesAConstantThatIsNotFree) {
  std::vector<double> values{10, 10};
  descend(values, {true, false}, [&](std::size_t) { return std::abs(values[0] - 5) + std::abs(values[1] - 5); });
  EXPECT_NEAR(values[0], 5, 0.1);
  EXPECT_EQ(values[1], 10);
}

}  // namespace
}  // namespace pinch::calibrate
