// Quantisation against a reference in this file that takes nothing from the library: scales from frexp and ldexp, codes
// by a search of the nearest value.
#include "pinch/fp4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace pinch {
namespace {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::array kFormats = {Fp4Format::kNvfp4, Fp4Format::kMxfp4};

/// Values of the magnitude codes of e4m3 (0 .. 0x7e) and e2m1, written from their definitions.
std::vector<double> e4m3_magnitudes() {
  std::vector<double> values;
  for (int code = 0; code < 0x7f; ++code) {
    values.push_back(code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 10));
  }
  return values;
}
const std::vector<double> kE4m3Magnitudes = e4m3_magnitudes();
const std::vector<double> kE2m1Magnitudes = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

/// Index of the nearest value, ties to the even index, saturating.
std::uint8_t nearest(const std::vector<double>& values, double magnitude) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double closer = std::fabs(values[best] - magnitude) - std::fabs(values[i] - magnitude);
    if (closer > 0 || (closer == 0 && i % 2 == 0)) best = i;
  }
  return static_cast<std::uint8_t>(best);
}

double scale_of(Fp4Format format, std::uint8_t code) {
  return format == Fp4Format::kNvfp4 ? kE4m3Magnitudes.at(code) : std::ldexp(1.0, code - 127);
}

std::uint8_t reference_scale(Fp4Format format, float amax, float global) {
  if (format == Fp4Format::kNvfp4) return nearest(kE4m3Magnitudes, amax * global / 6.0F);
  if (amax == 0) return 0;
  int exponent = 0;
  std::frexp(amax, &exponent);  // amax in [2^(exponent - 1), 2^exponent)
  return static_cast<std::uint8_t>(std::max(exponent - 1 - 2, -127) + 127);
}

std::uint8_t reference_code(Fp4Format format, float w, float global, double scale) {
  const std::uint8_t sign = std::signbit(w) ? 8 : 0;
  if (scale == 0) return sign;
  const double scaled =
      format == Fp4Format::kNvfp4 ? static_cast<double>(w * global / static_cast<float>(scale)) : w / scale;
  return static_cast<std::uint8_t>(sign | nearest(kE2m1Magnitudes, std::fabs(scaled)));
}

/// The first place at which a matrix differs from the reference quantisation of w.
std::optional<std::string> first_difference(const Fp4Matrix& matrix, const std::vector<float>& w) {
  const auto group = static_cast<std::size_t>(group_size(matrix.format));
  float amax = 0;
  for (const float value : w) amax = std::max(amax, std::fabs(value));
  const float global = matrix.format == Fp4Format::kNvfp4 && amax > 0 ? 2688.0F / amax : 1.0F;
  if (matrix.alpha != 1.0F / global) return "alpha";
  for (std::size_t g = 0; g < w.size() / group; ++g) {
    float group_amax = 0;
    for (std::size_t i = 0; i < group; ++i) group_amax = std::max(group_amax, std::fabs(w[g * group + i]));
    const std::uint8_t scale = reference_scale(matrix.format, group_amax, global);
    if (matrix.scales[g] != scale) return "scale " + std::to_string(g);
    for (std::size_t i = g * group; i < (g + 1) * group; ++i) {
      const int code = i % 2 == 0 ? matrix.codes[i / 2] & 15 : matrix.codes[i / 2] >> 4;
      if (code != reference_code(matrix.format, w[i], global, scale_of(matrix.format, scale))) {
        return "element " + std::to_string(i);
      }
    }
  }
  return std::nullopt;
}

/// Weights like a model's: normal, with rows and single outliers of other magnitudes.
std::vector<float> random_weights(std::int64_t n, std::int64_t k, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> w(static_cast<std::size_t>(n * k));
  for (auto& value : w) value = normal(random);
  for (std::size_t i = 0; i < w.size(); i += 97) w[i] *= std::ldexp(1.0F, static_cast<int>(random() % 24) - 16);
  return w;
}

Fp4Matrix quantized(const std::vector<float>& w, std::int64_t n, std::int64_t k, Fp4Format format) {
  auto matrix = quantize_fp4(w, n, k, format);
  EXPECT_TRUE(matrix.ok()) << matrix.error().message();
  return std::move(matrix).value();
}

class Fp4 : public testing::TestWithParam<Fp4Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, Fp4, testing::ValuesIn(kFormats),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

TEST_P(Fp4, QuantisesAsTheReferenceDoes) {
  for (const auto& [n, k] : {std::pair{1, 32}, {3, 96}, {17, 512}, {64, 2048}}) {
    const auto w = random_weights(n, k, static_cast<std::uint32_t>(n));
    const auto difference = first_difference(quantized(w, n, k, GetParam()), w);
    EXPECT_FALSE(difference.has_value()) << n << " x " << k << ": " << *difference;
  }
}

TEST_P(Fp4, TheReferenceRefusesAnyChangedByte) {
  const auto w = random_weights(2, 64, 5);
  const Fp4Matrix good = quantized(w, 2, 64, GetParam());
  ASSERT_EQ(first_difference(good, w), std::nullopt);
  for (std::size_t i = 0; i < good.codes.size(); ++i) {
    for (const int flip : {1, 8, 16, 128}) {
      Fp4Matrix bad = good;
      bad.codes[i] = static_cast<std::uint8_t>(bad.codes[i] ^ flip);
      EXPECT_NE(first_difference(bad, w), std::nullopt);
    }
  }
  for (std::size_t i = 0; i < good.scales.size(); ++i) {
    Fp4Matrix bad = good;
    bad.scales[i] ^= 1U;
    EXPECT_NE(first_difference(bad, w), std::nullopt);
  }
  Fp4Matrix bad = good;
  bad.alpha = std::nextafter(bad.alpha, 0.0F);
  EXPECT_NE(first_difference(bad, w), std::nullopt);
}

TEST_P(Fp4, QuantisesEveryTieOfEveryScaleToTheEvenCode) {
  // One group a row: its first element sets the scale, the others are ties of e2m1, exact for scales that are powers of
  // two.
  constexpr std::array kTies = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
  constexpr std::array<int, 7> kEven = {0, 2, 2, 4, 4, 6, 6};
  std::vector<float> w(32, 0.0F);
  w[0] = 6.0F;
  std::copy(kTies.begin(), kTies.end(), w.begin() + 1);
  w[16] = 6.0F;  // NVFP4: the second group, mirrored
  std::transform(kTies.begin(), kTies.end(), w.begin() + 17, [](float tie) { return -tie; });
  const Fp4Matrix matrix = quantized(w, 1, 32, GetParam());
  for (std::size_t i = 0; i < 7; ++i) {
    const auto code = [&](std::size_t c) { return c % 2 == 0 ? matrix.codes[c / 2] & 15 : matrix.codes[c / 2] >> 4; };
    EXPECT_EQ(code(i + 1), kEven[i]);
    EXPECT_EQ(code(i + 17), kEven[i] | 8);
  }
}

TEST_P(Fp4, ErrorOfAnElementIsAtMostHalfTheWidestGapOfItsScale) {
  // e2m1's widest gap is 2, so a code is at most 1 scale off; a scale rounded down by up to 1/16 leaves the largest
  // element at 6.375 scales in NVFP4, and MXFP4's rule leaves it below 8: 0.375 and 2 beyond the largest code.
  const Fp4Format format = GetParam();
  const double allowed = format == Fp4Format::kNvfp4 ? 1.0 : 2.0;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> w(64 * 256);
  for (auto& value : w) value = normal(random);
  const Fp4Matrix matrix = quantized(w, 64, 256, format);
  std::vector<float> row(256);
  for (std::int64_t r = 0; r < 64; ++r) {
    dequantize_row(matrix.view(), r, row);
    for (std::int64_t c = 0; c < 256; ++c) {
      const auto group = static_cast<std::size_t>((r * 256 + c) / group_size(format));
      const double scale = scale_of(format, matrix.scales[group]) * matrix.alpha;
      const double error = std::fabs(row[static_cast<std::size_t>(c)] - w[static_cast<std::size_t>(r * 256 + c)]);
      ASSERT_LE(error, allowed * scale * (1 + 0x1p-20)) << r << ", " << c;  // FP32 rounding of the five operations
    }
  }
}

TEST_P(Fp4, RowBlocksGiveTheBytesOfTheWhole) {
  constexpr std::int64_t kRows = 7;
  constexpr std::int64_t kColumns = 96;
  const auto w = random_weights(kRows, kColumns, 11);
  const Fp4Matrix whole = quantized(w, kRows, kColumns, GetParam());
  for (std::int64_t block = 1; block <= kRows; ++block) {
    float amax = 0;
    std::vector<std::uint8_t> codes(whole.codes.size());
    std::vector<std::uint8_t> scales(whole.scales.size());
    const auto rows_at = [&](std::int64_t row) {
      const auto count = static_cast<std::size_t>(std::min(block, kRows - row) * kColumns);
      return std::span(w).subspan(static_cast<std::size_t>(row * kColumns), count);
    };
    for (std::int64_t row = 0; row < kRows; row += block) {
      amax = std::max(amax, finite_amax(rows_at(row), kColumns, row).value());
    }
    const float global = fp4_global_scale(GetParam(), amax);
    EXPECT_EQ(whole.alpha, 1.0F / global);
    for (std::int64_t row = 0; row < kRows; row += block) {
      const auto rows = rows_at(row);
      const auto first = static_cast<std::size_t>(row * kColumns);
      const auto group = static_cast<std::size_t>(group_size(GetParam()));
      const auto done =
          quantize_fp4_rows(GetParam(), kColumns, global, rows, std::span(codes).subspan(first / 2, rows.size() / 2),
                            std::span(scales).subspan(first / group, rows.size() / group), row);
      ASSERT_TRUE(done.ok()) << done.error().message();
    }
    EXPECT_EQ(codes, whole.codes) << block;
    EXPECT_EQ(scales, whole.scales) << block;
  }
}

TEST_P(Fp4, TensorOfZerosHasAlphaOneAndDequantisesToZerosOfTheirSign) {
  std::vector<float> w(64, 0.0F);
  w[5] = -0.0F;
  const Fp4Matrix matrix = quantized(w, 2, 32, GetParam());
  EXPECT_EQ(matrix.alpha, 1.0F);
  EXPECT_TRUE(validate(matrix.view()).ok());
  std::vector<float> row(32, kNan);
  dequantize_row(matrix.view(), 0, row);
  for (std::size_t c = 0; c < 32; ++c) {
    EXPECT_EQ(row[c], 0.0F);
    EXPECT_EQ(std::signbit(row[c]), c == 5);
  }
}

TEST_P(Fp4, GroupOfZerosHasTheSmallestScaleAndNoNan) {
  std::vector<float> w(64, 0.0F);
  std::fill(w.begin(), w.begin() + 32, 3.0F);
  const Fp4Matrix matrix = quantized(w, 2, 32, GetParam());
  EXPECT_EQ(matrix.scales.back(), 0);
  std::vector<float> row(32, kNan);
  dequantize_row(matrix.view(), 1, row);
  EXPECT_THAT(row, testing::Each(0.0F));
}

TEST_P(Fp4, ExtremeMagnitudesGiveFiniteWeights) {
  using Limits = std::numeric_limits<float>;
  for (const float magnitude :
       {Limits::max(), 1e30F, 1e-30F, 8e-36F, 1e-36F, Limits::min(), 1e-40F, Limits::denorm_min()}) {
    std::vector<float> w(32);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = (i % 2 == 0 ? magnitude : -magnitude) / static_cast<float>(1 + i);
    const Fp4Matrix matrix = quantized(w, 1, 32, GetParam());
    ASSERT_TRUE(validate(matrix.view()).ok()) << magnitude;
    EXPECT_TRUE(std::isnormal(matrix.alpha)) << magnitude;
    std::vector<float> row(32);
    dequantize_row(matrix.view(), 0, row);
    for (const float value : row) EXPECT_TRUE(std::isfinite(value)) << magnitude;
    if (magnitude > 1e-35F) {
      EXPECT_NEAR(row[0], magnitude, magnitude / 3) << magnitude;  // code 4 or 6 for 4 .. 8
    }
  }
}

TEST(Fp4Nvfp4, GroupWhoseScaleRoundsToZeroBecomesZeros) {
  // 2^-10 is half of e4m3's smallest value, a tie that goes to the even code 0: amax(group) / amax = 2^-10 / 448.
  std::vector<float> w(32, 0.0F);
  w[0] = 448.0F;
  w[16] = 0x1p-10F;
  w[17] = -0x1p-10F;
  const Fp4Matrix matrix = quantized(w, 2, 16, Fp4Format::kNvfp4);
  EXPECT_EQ(matrix.scales, (std::vector<std::uint8_t>{0x7e, 0}));
  EXPECT_EQ(matrix.codes[8], 0x80);  // +0 and -0
}

TEST(Fp4Mxfp4, ScaleIsThePowerOfTwoOfTheLargestElementLessTwo) {
  const auto scale_for = [](float amax) {
    std::vector<float> w(32, 0.0F);
    w[31] = -amax;
    return quantized(w, 1, 32, Fp4Format::kMxfp4).scales[0];
  };
  EXPECT_EQ(scale_for(1.0F), 125);
  EXPECT_EQ(scale_for(std::nextafter(2.0F, 0.0F)), 125);
  EXPECT_EQ(scale_for(2.0F), 126);
  EXPECT_EQ(scale_for(0x1p-124F), 1);
  EXPECT_EQ(scale_for(0x1p-125F), 0);
  EXPECT_EQ(scale_for(0x1p-126F), 0);
  EXPECT_EQ(scale_for(0x1p-149F), 0);
  EXPECT_EQ(scale_for(std::numeric_limits<float>::max()), 252);
}

TEST_P(Fp4, DequantisesEveryCodeTimesEveryScaleExactlyInBf16) {
  const Fp4Format format = GetParam();
  const int scales = format == Fp4Format::kNvfp4 ? 0x7f : 253;
  std::vector<std::uint8_t> codes(16);
  for (std::size_t i = 0; i < 16; ++i) codes[i] = static_cast<std::uint8_t>((2 * i) % 16 | ((2 * i + 1) % 16) << 4);
  for (int scale = 0; scale < scales; ++scale) {
    const std::vector<std::uint8_t> scale_codes(2, static_cast<std::uint8_t>(scale));
    const Fp4View view{format, 1, 32, codes.data(), scale_codes.data(), ScaleLayout::kLinear, 0.75F};
    ASSERT_TRUE(validate(view).ok());
    std::vector<Bf16> exact(32);
    std::vector<float> scaled(32);
    dequantize_row(view, 0, exact);
    dequantize_row(view, 0, scaled);
    for (std::size_t c = 0; c < 32; ++c) {
      const double magnitude = kE2m1Magnitudes[c % 8] * scale_of(format, static_cast<std::uint8_t>(scale));
      const double value = c % 16 < 8 ? magnitude : -magnitude;
      ASSERT_EQ(to_f32(exact[c]), value) << scale << ", " << c;
      ASSERT_EQ(scaled[c], static_cast<float>(value * 0.75)) << scale << ", " << c;
    }
  }
}

TEST_P(Fp4, DequantisesAlikeFromBothScaleLayouts) {
  const auto w = random_weights(130, 96, 21);
  Fp4Matrix matrix = quantized(w, 130, 96, GetParam());
  std::vector<Bf16> linear(96);
  std::vector<Bf16> swizzled(96);
  const Fp4Matrix original = matrix;
  matrix.scales = swizzle_scales(matrix.scales, 130, 96 / group_size(GetParam())).value();
  matrix.scale_layout = ScaleLayout::kSwizzled128x4;
  ASSERT_TRUE(validate(matrix.view()).ok());
  for (std::int64_t row = 0; row < 130; ++row) {
    dequantize_row(original.view(), row, linear);
    dequantize_row(matrix.view(), row, swizzled);
    ASSERT_EQ(linear, swizzled) << row;
  }
}

TEST_P(Fp4, RefusesANanOrInfinityNamingRowAndColumn) {
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const std::size_t position : {0U, 31U, 32U, 32U * 5U + 17U, 32U * 9U + 31U}) {
      auto w = random_weights(10, 32, 2);
      w[position] = bad;
      const std::string place = "row " + std::to_string(position / 32) + ", column " + std::to_string(position % 32);
      const auto whole = quantize_fp4(w, 10, 32, GetParam());
      ASSERT_FALSE(whole.ok());
      EXPECT_EQ(whole.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(whole.error().where, place);
      EXPECT_THAT(whole.error().text, HasSubstr(std::isnan(bad) ? "nan" : "inf"));
      std::vector<std::uint8_t> codes(160);
      std::vector<std::uint8_t> scales(static_cast<std::size_t>(320 / group_size(GetParam())));
      const auto rows = quantize_fp4_rows(GetParam(), 32, 1.0F, w, codes, scales, 0);
      ASSERT_FALSE(rows.ok());
      EXPECT_EQ(rows.error().where, place);
    }
  }
}

TEST(Fp4Errors, FiniteAmaxCountsRowsFromTheBlocksFirst) {
  std::vector<float> rows(64, 1.0F);
  rows[40] = kNan;
  const auto amax = finite_amax(rows, 32, 100);
  ASSERT_FALSE(amax.ok());
  EXPECT_EQ(amax.error().where, "row 101, column 8");
}

TEST(Fp4Errors, FiniteAmaxFindsTheLargestAtEveryPosition) {
  for (std::size_t size = 1; size < 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      std::vector<float> values(size, -1.0F);
      values[at] = -2.0F;
      ASSERT_EQ(finite_amax(values, 1).value(), 2.0F) << at << " of " << size;
    }
  }
  EXPECT_EQ(finite_amax({}, 1).value(), 0.0F);
}

TEST(Fp4Errors, RefusesShapesByTheNameOfTheirFault) {
  struct Case {
    Fp4Format format;
    std::int64_t n;
    std::int64_t k;
    const char* where;
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const Case& bad : {Case{Fp4Format::kNvfp4, 0, 16, "n"}, Case{Fp4Format::kNvfp4, -1, 16, "n"},
                          Case{Fp4Format::kNvfp4, kHuge, 16, "n"}, Case{Fp4Format::kNvfp4, 1, 0, "k"},
                          Case{Fp4Format::kNvfp4, 1, -16, "k"}, Case{Fp4Format::kNvfp4, 1, 8, "k"},
                          Case{Fp4Format::kNvfp4, 1, kHuge - 15, "k"}, Case{Fp4Format::kMxfp4, 1, 48, "k"},
                          Case{Fp4Format::kMxfp4, 1, 16, "k"}}) {
    const auto shape = validate_fp4_shape(bad.format, bad.n, bad.k);
    ASSERT_FALSE(shape.ok()) << bad.n << " x " << bad.k;
    EXPECT_EQ(shape.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(shape.error().where, bad.where);
    EXPECT_FALSE(quantize_fp4({}, bad.n, bad.k, bad.format).ok());
  }
  EXPECT_TRUE(validate_fp4_shape(Fp4Format::kNvfp4, 1, 48).ok());
  EXPECT_TRUE(validate_fp4_shape(Fp4Format::kMxfp4, kMaxFp4Dimension, 64).ok());
}

TEST(Fp4Errors, RefusesBuffersOfTheWrongSize) {
  const std::vector<float> w(64, 1.0F);
  EXPECT_THAT(quantize_fp4(std::span(w).first(63), 2, 32, Fp4Format::kNvfp4).error().text, HasSubstr("63"));
  std::vector<std::uint8_t> codes(32);
  std::vector<std::uint8_t> scales(4);
  const auto quantize = [&](std::size_t elements, std::size_t code_bytes, std::size_t scale_count) {
    return quantize_fp4_rows(Fp4Format::kNvfp4, 32, 1.0F, std::span(w).first(elements),
                             std::span(codes).first(code_bytes), std::span(scales).first(scale_count));
  };
  EXPECT_TRUE(quantize(64, 32, 4).ok());
  EXPECT_TRUE(quantize(0, 0, 0).ok());
  EXPECT_THAT(quantize(48, 24, 3).error().text, HasSubstr("whole rows"));
  EXPECT_THAT(quantize(64, 31, 4).error().text, HasSubstr("codes"));
  EXPECT_THAT(quantize(64, 32, 3).error().text, HasSubstr("scales"));
}

TEST_P(Fp4, ValidateFindsABadScaleWhereverItLies) {
  const Fp4Format format = GetParam();
  constexpr std::int64_t kRows = 130;
  const std::int64_t columns = 96 / group_size(format);
  const Fp4Matrix good = quantized(random_weights(kRows, 96, 4), kRows, 96, format);
  const std::vector<std::pair<std::uint8_t, const char*>> faults =
      format == Fp4Format::kNvfp4
          ? std::vector<std::pair<std::uint8_t, const char*>>{{0x7f, "NaN"},
                                                              {0xff, "NaN"},
                                                              {0x80, "negative"},
                                                              {0xfe, "negative"}}
          : std::vector<std::pair<std::uint8_t, const char*>>{{0xff, "NaN"}, {0xfe, "overflows"}, {0xfd, "overflows"}};
  for (const ScaleLayout layout : {ScaleLayout::kLinear, ScaleLayout::kSwizzled128x4}) {
    Fp4Matrix matrix = good;
    matrix.scale_layout = layout;
    if (layout == ScaleLayout::kSwizzled128x4) {
      matrix.scales = swizzle_scales(good.scales, kRows, columns).value();
    }
    ASSERT_TRUE(validate(matrix.view()).ok());
    for (const auto& [row, column] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {31, 1}, {129, columns - 1}}) {
      for (const auto& [code, name] : faults) {
        Fp4Matrix bad = matrix;
        bad.scales[static_cast<std::size_t>(scale_offset(layout, row, column, columns))] = code;
        const auto checked = validate(bad.view());
        ASSERT_FALSE(checked.ok());
        EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
        EXPECT_THAT(checked.error().text, HasSubstr(name));
        EXPECT_EQ(checked.error().where, "row " + std::to_string(row) + ", scale column " + std::to_string(column));
      }
    }
  }
}

TEST(Fp4Errors, ValidateIgnoresThePaddingOfTheSwizzle) {
  Fp4Matrix matrix = quantized(random_weights(3, 32, 4), 3, 32, Fp4Format::kNvfp4);
  matrix.scales = swizzle_scales(matrix.scales, 3, 2).value();
  matrix.scale_layout = ScaleLayout::kSwizzled128x4;
  matrix.scales.back() = 0x7f;
  EXPECT_TRUE(validate(matrix.view()).ok());
}

TEST(Fp4Errors, ValidateRefusesViewsThatKernelsCannotUse) {
  const Fp4Matrix matrix = quantized(random_weights(2, 32, 4), 2, 32, Fp4Format::kNvfp4);
  const auto where = [&](auto&& change) {
    Fp4View view = matrix.view();
    change(view);
    const auto checked = validate(view);
    return checked.ok() ? "accepted" : checked.error().where;
  };
  EXPECT_EQ(where([](Fp4View&) {}), "accepted");
  EXPECT_EQ(where([](Fp4View& view) { view.n = 0; }), "n");
  EXPECT_EQ(where([](Fp4View& view) { view.k = 24; }), "k");
  EXPECT_EQ(where([](Fp4View& view) { view.codes = nullptr; }), "codes");
  EXPECT_EQ(where([](Fp4View& view) { view.scales = nullptr; }), "scales");
  EXPECT_EQ(where([](Fp4View& view) { view.alpha = kNan; }), "alpha");
  EXPECT_EQ(where([](Fp4View& view) { view.alpha = kInfinity; }), "alpha");
}

TEST(Fp4DeathTest, DequantisingOutsideTheMatrixStopsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Fp4Matrix matrix = quantized(std::vector<float>(32, 1.0F), 2, 16, Fp4Format::kNvfp4);
  std::vector<float> row(16);
  EXPECT_DEATH(dequantize_row(matrix.view(), 2, row), "row lies inside the matrix");
  EXPECT_DEATH(dequantize_row(matrix.view(), -1, row), "row lies inside the matrix");
  std::vector<Bf16> narrow(15);
  EXPECT_DEATH(dequantize_row(matrix.view(), 0, narrow), "one row of k columns");
}

}  // namespace
}  // namespace pinch
