#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "pinch/fp4.h"

namespace pinch {
namespace {

using testing::HasSubstr;

TEST(ScaleSwizzle, FollowsTheClosedFormulaAndPadsWithZeros) {
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {127, 3}, {128, 4}, {129, 5}, {300, 17}}) {
    std::vector<std::uint8_t> linear(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < linear.size(); ++i) linear[i] = static_cast<std::uint8_t>(1 + i % 255);
    const auto swizzled = swizzle_scales(linear, rows, columns).value();
    const std::int64_t padded_rows = (rows + 127) / 128 * 128;
    const std::int64_t padded_columns = (columns + 3) / 4 * 4;
    ASSERT_EQ(static_cast<std::int64_t>(swizzled.size()), padded_rows * padded_columns);
    std::set<std::int64_t> offsets;
    for (std::int64_t n = 0; n < padded_rows; ++n) {
      for (std::int64_t kk = 0; kk < padded_columns; ++kk) {
        const std::int64_t offset =
            ((n / 128) * ((columns + 3) / 4) + kk / 4) * 512 + (n % 32) * 16 + ((n % 128) / 32) * 4 + kk % 4;
        const bool inside = n < rows && kk < columns;
        const std::uint8_t expected = inside ? linear[static_cast<std::size_t>(n * columns + kk)] : 0;
        ASSERT_EQ(swizzled.at(static_cast<std::size_t>(offset)), expected) << n << ", " << kk;
        offsets.insert(offset);
      }
    }
    EXPECT_EQ(offsets.size(), swizzled.size()) << "the formula is a permutation of the padded scales";
  }
}

TEST(ScaleSwizzle, RoundTripsEveryShapeAroundATile) {
  std::mt19937 random(7);
  for (const std::int64_t rows : {1, 31, 32, 33, 127, 128, 129, 257}) {
    for (std::int64_t columns = 1; columns < 10; ++columns) {
      std::vector<std::uint8_t> linear(static_cast<std::size_t>(rows * columns));
      for (auto& scale : linear) scale = static_cast<std::uint8_t>(random());
      const auto swizzled = swizzle_scales(linear, rows, columns).value();
      ASSERT_EQ(unswizzle_scales(swizzled, rows, columns).value(), linear) << rows << " x " << columns;
    }
  }
}

TEST(ScaleSwizzle, RefusesSizesThatDisagree) {
  const std::vector<std::uint8_t> scales(512);
  EXPECT_TRUE(unswizzle_scales(scales, 5, 3).ok());
  EXPECT_THAT(unswizzle_scales(scales, 129, 3).error().text, HasSubstr("1024"));
  EXPECT_THAT(swizzle_scales(scales, 5, 3).error().text, HasSubstr("15"));
  EXPECT_FALSE(swizzle_scales(scales, 0, 4).ok());
  EXPECT_FALSE(swizzle_scales(scales, 128, -4).ok());
  EXPECT_FALSE(unswizzle_scales(scales, std::numeric_limits<std::int64_t>::max(), 4).ok());
}

}  // namespace
}  // namespace pinch
