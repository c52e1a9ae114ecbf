#include "pinch/fp4.h"

#include <gtest/gtest.h>

#include <vector>

namespace pinch {
namespace {

TEST(Fp4, QuantisesValuesOnTheGridExactly) {
  const float grid[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  std::vector<float> w(64);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = (i % 3 == 0 ? -1.0F : 1.0F) * grid[i % 8];
  for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
    const auto matrix = quantize_fp4(w, 2, 32, format);
    ASSERT_TRUE(matrix.ok()) << matrix.error().message();
    ASSERT_TRUE(validate(matrix->view()).ok());
    std::vector<float> row(32);
    for (std::int64_t r = 0; r < 2; ++r) {
      dequantize_row(matrix->view(), r, row);
      for (std::size_t c = 0; c < 32; ++c) EXPECT_FLOAT_EQ(row[c], w[static_cast<std::size_t>(r) * 32 + c]);
    }
  }
}

}  // namespace
}  // namespace pinch
