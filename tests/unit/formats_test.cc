#include "pinch/formats.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pinch {
namespace {

static_assert(to_bf16(1.0F).bits == 0x3f80 && to_f16(65504.0F).bits == 0x7bff, "conversions are constant expressions");

TEST(Formats, EveryFiniteE4m3CodeSurvivesARoundTrip) {
  for (int code = 0; code < 256; ++code) {
    const E4m3 value{static_cast<std::uint8_t>(code)};
    EXPECT_EQ(to_e4m3(to_f32(value)), value) << code;
  }
}

TEST(Formats, EveryF16CodeSurvivesARoundTripUpToTheQuietBit) {
  for (int code = 0; code < 65536; ++code) {
    const F16 value{static_cast<std::uint16_t>(code)};
    const bool nan = std::isnan(to_f32(value));
    EXPECT_EQ(to_f16(to_f32(value)).bits, nan ? code | 0x200 : code);
  }
}

}  // namespace
}  // namespace pinch
