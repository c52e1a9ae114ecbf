// Every conversion against a reference that shares nothing with it: code values enumerated in double from the
// definition of the format, rounding by a search among them with midpoints compared exactly.
#include "pinch/formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <vector>

namespace pinch {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

static_assert(to_bf16(1.0F).bits == 0x3f80 && to_f16(65504.0F).bits == 0x7bff && to_e4m3(-448.0F).bits == 0xfe &&
                  to_e5m2(57344.0F).bits == 0x7b && to_e2m1(-6.0F).bits == 0xf && to_ue8m0(4.0F).bits == 129,
              "conversions are constant expressions");

/// One format, as its specification defines it, with the conversions under test.
struct Format {
  const char* name;
  int fraction_bits;
  int bias;
  std::uint32_t largest_finite;  ///< code of the largest finite magnitude
  std::uint32_t sign;            ///< code of -0
  bool has_infinity;             ///< the code after largest_finite is infinity; else conversions saturate
  std::uint32_t (*encode)(float);
  float (*decode)(std::uint32_t);
};

std::ostream& operator<<(std::ostream& out, const Format& format) {
  return out << format.name;
}

template <class T, T (*kConvert)(float)>
std::uint32_t encode_as(float value) {
  return kConvert(value).bits;
}
template <class T>
float decode_as(std::uint32_t code) {
  return to_f32(T{static_cast<decltype(T::bits)>(code)});
}

constexpr Format kBf16{"bf16", 7, 127, 0x7f7f, 0x8000, true, encode_as<Bf16, to_bf16>, decode_as<Bf16>};
constexpr Format kF16{"f16", 10, 15, 0x7bff, 0x8000, true, encode_as<F16, to_f16>, decode_as<F16>};
constexpr Format kE4m3{"e4m3", 3, 7, 0x7e, 0x80, false, encode_as<E4m3, to_e4m3>, decode_as<E4m3>};
constexpr Format kE5m2{"e5m2", 2, 15, 0x7b, 0x80, false, encode_as<E5m2, to_e5m2>, decode_as<E5m2>};
constexpr Format kE2m1{"e2m1", 1, 1, 7, 8, false, encode_as<E2m1, to_e2m1>, decode_as<E2m1>};

/// Value of a magnitude code: (1.f) * 2^(e - bias), or (0.f) * 2^(1 - bias) where the exponent field is 0.
double value_of(const Format& format, std::uint32_t code) {
  const std::uint32_t hidden = 1U << format.fraction_bits;
  const std::uint32_t fraction = code % hidden;
  const int exponent = static_cast<int>(code / hidden);
  if (exponent == 0) return std::ldexp(fraction, 1 - format.bias - format.fraction_bits);
  return std::ldexp(fraction + hidden, exponent - format.bias - format.fraction_bits);
}

/// Rounds by searching the ascending code values. Midpoints of two codes have at most 12 significant bits: exact in
/// double.
class NearestEven {
 public:
  explicit NearestEven(const Format& format) : format_(format) {
    // Infinity takes part as the value its code would have if the format went on: that is how IEEE 754 defines
    // overflow.
    const std::uint32_t last = format.largest_finite + (format.has_infinity ? 1 : 0);
    for (std::uint32_t code = 0; code <= last; ++code) values_.push_back(value_of(format, code));
  }

  [[nodiscard]] std::uint32_t operator()(float value) const {
    const double magnitude = std::fabs(static_cast<double>(value));
    const std::uint32_t sign = std::signbit(value) ? format_.sign : 0;
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return sign | static_cast<std::uint32_t>(values_.size() - 1);
    const auto upper = static_cast<std::uint32_t>(above - values_.begin());
    if (upper == 0) return sign;
    const double middle = (values_[upper - 1] + values_[upper]) / 2;
    const bool up = magnitude > middle || (magnitude == middle && upper % 2 == 0);
    return sign | (up ? upper : upper - 1);
  }

  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  Format format_;
  std::vector<double> values_;
};

/// Appends a value, its two FP32 neighbours and the three negatives.
void append_around(std::vector<float>& inputs, double value) {
  const auto centre = static_cast<float>(value);
  for (const float input : {std::nextafter(centre, -kInfinity), centre, std::nextafter(centre, kInfinity)}) {
    inputs.push_back(input);
    inputs.push_back(-input);
  }
}

/// Every code value, every tie, their neighbours, the edges of FP32 and a walk over all FP32 bit patterns but NaNs.
std::vector<float> probing_inputs(const std::vector<double>& values) {
  std::vector<float> inputs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    append_around(inputs, values[i]);
    if (i > 0) append_around(inputs, (values[i - 1] + values[i]) / 2);
  }
  // Half a unit past the last code, where IEEE formats overflow and the others saturate.
  append_around(inputs, values.back() + (values.back() - values[values.size() - 2]) / 2);
  using Limits = std::numeric_limits<float>;
  for (const float edge : {Limits::denorm_min(), Limits::min(), Limits::max(), kInfinity}) append_around(inputs, edge);
  constexpr std::uint64_t kPrimeStride = 2003;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += kPrimeStride) {
    const auto input = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    inputs.push_back(input);
  }
  std::erase_if(inputs, [](float input) { return std::isnan(input); });
  return inputs;
}

/// The first input that a conversion rounds otherwise than the reference.
template <class Reference, class Encode>
std::optional<float> first_mismatch(const Reference& reference, const std::vector<float>& inputs, Encode encode) {
  for (const float input : inputs) {
    if (encode(input) != reference(input)) return input;
  }
  return std::nullopt;
}

class EveryFormat : public testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, testing::Values(kBf16, kF16, kE4m3, kE5m2, kE2m1),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(EveryFormat, DecodesEveryFiniteCodeExactly) {
  const Format& format = GetParam();
  for (std::uint32_t code = 0; code <= format.largest_finite; ++code) {
    const double value = value_of(format, code);
    const float positive = format.decode(code);
    const float negative = format.decode(code | format.sign);
    ASSERT_EQ(positive, value) << code;
    ASSERT_EQ(negative, -value) << code;
    ASSERT_FALSE(std::signbit(positive)) << code;
    ASSERT_TRUE(std::signbit(negative)) << code;
  }
}

TEST_P(EveryFormat, DecodesEveryCodeAboveTheFiniteOnesAsInfinityOrNan) {
  const Format& format = GetParam();
  const std::uint32_t first_infinite = 0x1fU << 2;  // of e5m2, which can hold infinity though no conversion gives it
  for (std::uint32_t code = format.largest_finite + 1; code < format.sign; ++code) {
    const bool infinity = code == format.largest_finite + 1 && (format.has_infinity || code == first_infinite);
    for (const std::uint32_t sign : {0U, format.sign}) {
      const float value = format.decode(code | sign);
      ASSERT_EQ(std::isinf(value), infinity) << code;
      ASSERT_EQ(std::isnan(value), !infinity) << code;
      ASSERT_EQ(std::signbit(value), sign != 0) << code;
    }
  }
}

TEST_P(EveryFormat, RoundsToNearestEvenAndSaturatesAsSpecified) {
  const Format& format = GetParam();
  const NearestEven reference(format);
  const auto mismatch = first_mismatch(reference, probing_inputs(reference.values()), format.encode);
  EXPECT_FALSE(mismatch.has_value()) << std::hexfloat << *mismatch << " gives code " << format.encode(*mismatch)
                                     << ", not " << reference(*mismatch);
}

TEST_P(EveryFormat, EveryCodeSurvivesARoundTrip) {
  const Format& format = GetParam();
  for (std::uint32_t code = 0; code < 2 * format.sign; ++code) {
    const float value = format.decode(code);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(format.decode(format.encode(value)))) << code;
    } else if (std::isfinite(value) || format.has_infinity) {
      ASSERT_EQ(format.encode(value), code);
    }
  }
}

TEST_P(EveryFormat, KeepsTheSignOfZero) {
  const Format& format = GetParam();
  EXPECT_EQ(format.encode(0.0F), 0U);
  EXPECT_EQ(format.encode(-0.0F), format.sign);
}

// The reference must be able to fail: each way in which a conversion is commonly wrong is found.
TEST_P(EveryFormat, TheReferenceRefusesTruncation) {
  const Format& format = GetParam();
  const NearestEven reference(format);
  const auto truncate = [&](float value) {
    const std::uint32_t code = format.encode(value);
    const bool too_large = std::fabs(format.decode(code)) > std::fabs(value);
    return too_large ? code - 1 : code;
  };
  EXPECT_TRUE(first_mismatch(reference, probing_inputs(reference.values()), truncate).has_value());
}

TEST_P(EveryFormat, TheReferenceRefusesTiesAwayFromZero) {
  const Format& format = GetParam();
  const NearestEven reference(format);
  const auto ties_away = [&](float value) {
    return format.encode(std::nextafter(value, value < 0 ? -kInfinity : kInfinity));
  };
  EXPECT_TRUE(first_mismatch(reference, probing_inputs(reference.values()), ties_away).has_value());
}

TEST_P(EveryFormat, TheReferenceRefusesALostNegativeZero) {
  const Format& format = GetParam();
  const NearestEven reference(format);
  const auto plus_zero = [&](float value) { return value == 0 ? 0U : format.encode(value); };
  EXPECT_TRUE(first_mismatch(reference, probing_inputs(reference.values()), plus_zero).has_value());
}

// Corner values as the specifications print them, so that a slip in the description of a format above cannot hide one.
TEST(Formats, HaveTheCornerValuesOfTheirSpecifications) {
  EXPECT_EQ(to_f32(E4m3{0x7e}), 448.0F);
  EXPECT_EQ(to_f32(E4m3{0x08}), 0x1p-6F);
  EXPECT_EQ(to_f32(E4m3{0x07}), 0.875F * 0x1p-6F);
  EXPECT_EQ(to_f32(E4m3{0x01}), 0x1p-9F);
  EXPECT_EQ(to_f32(E5m2{0x7b}), 57344.0F);
  EXPECT_EQ(to_f32(E5m2{0x7c}), kInfinity);
  EXPECT_EQ(to_f32(E5m2{0x04}), 0x1p-14F);
  EXPECT_EQ(to_f32(E5m2{0x01}), 0x1p-16F);
  EXPECT_EQ(to_f32(F16{0x7bff}), 65504.0F);
  EXPECT_EQ(to_f32(F16{0x0001}), 0x1p-24F);
  EXPECT_EQ(to_f32(Bf16{0x7f7f}), 0x1.fep127F);
  EXPECT_EQ(to_f32(Bf16{0x0001}), 0x1p-133F);
  const float e2m1[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  for (std::uint8_t code = 0; code < 8; ++code) EXPECT_EQ(to_f32(E2m1{code}), e2m1[code]);
}

TEST(Formats, SaturateFp8AndFp4AtInfinityAndOverflowBf16AndF16) {
  for (const float large : {kInfinity, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(to_e4m3(large).bits, 0x7e);
    EXPECT_EQ(to_e4m3(-large).bits, 0xfe);
    EXPECT_EQ(to_e5m2(large).bits, 0x7b);
    EXPECT_EQ(to_e5m2(-large).bits, 0xfb);
    EXPECT_EQ(to_e2m1(large).bits, 0x7);
    EXPECT_EQ(to_e2m1(-large).bits, 0xf);
    EXPECT_EQ(to_f16(large).bits, 0x7c00);
    EXPECT_EQ(to_f16(-large).bits, 0xfc00);
    EXPECT_EQ(to_bf16(large).bits, 0x7f80);
    EXPECT_EQ(to_bf16(-large).bits, 0xff80);
  }
}

TEST(Formats, GiveQuietNansThatKeepTheSign) {
  for (const std::uint32_t payload : {0x00000001U, 0x00001fffU, 0x003fffffU, 0x00400000U, 0x007fffffU}) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto nan = std::bit_cast<float>(sign | 0x7f800000U | payload);
      const auto sign16 = static_cast<std::uint16_t>(sign >> 16);
      const auto sign8 = static_cast<std::uint8_t>(sign >> 24);
      EXPECT_EQ(to_bf16(nan).bits, sign16 | 0x7fc0 | (payload >> 16)) << payload;
      EXPECT_EQ(to_f16(nan).bits, sign16 | 0x7e00 | (payload >> 13)) << payload;
      EXPECT_EQ(to_e4m3(nan).bits, sign8 | 0x7f) << payload;
      EXPECT_EQ(to_e5m2(nan).bits, sign8 | 0x7e) << payload;
      EXPECT_EQ(to_e2m1(nan).bits, 7) << payload;
      EXPECT_EQ(to_ue8m0(nan).bits, 0xff) << payload;
    }
  }
}

TEST(Formats, E2m1IgnoresTheHighNibble) {
  for (int byte = 0; byte < 256; ++byte) {
    const float whole = to_f32(E2m1{static_cast<std::uint8_t>(byte)});
    const float low = to_f32(E2m1{static_cast<std::uint8_t>(byte % 16)});
    ASSERT_EQ(std::bit_cast<std::uint32_t>(whole), std::bit_cast<std::uint32_t>(low)) << byte;
  }
}

/// Ue8m0 by the same search: codes 0 .. 254 are 2^(code - 127), nothing below zero has a code.
std::uint32_t nearest_ue8m0(float value) {
  if (value < 0) return 0xff;
  std::uint32_t code = 0;
  while (code < 254) {
    const double middle = 1.5 * std::ldexp(1.0, static_cast<int>(code) - 127);
    if (value < middle || (value == middle && code % 2 == 0)) break;
    ++code;
  }
  return code;
}

std::vector<double> ue8m0_values() {
  std::vector<double> values;
  for (int code = 0; code < 255; ++code) values.push_back(std::ldexp(1.0, code - 127));
  return values;
}

TEST(Ue8m0Format, DecodesEveryCodeExactly) {
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(to_f32(Ue8m0{static_cast<std::uint8_t>(code)}), std::ldexp(1.0, code - 127));
  }
  EXPECT_TRUE(std::isnan(to_f32(Ue8m0{0xff})));
}

TEST(Ue8m0Format, RoundsToTheNearestPowerOfTwoTiesToTheEvenCode) {
  const auto mismatch = first_mismatch(nearest_ue8m0, probing_inputs(ue8m0_values()), encode_as<Ue8m0, to_ue8m0>);
  EXPECT_FALSE(mismatch.has_value()) << std::hexfloat << *mismatch << " gives code " << +to_ue8m0(*mismatch).bits;
}

TEST(Ue8m0Format, TheReferenceRefusesTheExponentField) {
  const auto exponent_field = [](float value) { return std::bit_cast<std::uint32_t>(value) >> 23 & 0xffU; };
  EXPECT_TRUE(first_mismatch(nearest_ue8m0, probing_inputs(ue8m0_values()), exponent_field).has_value());
}

TEST(Ue8m0Format, HasNeitherZeroNorSignNorInfinity) {
  EXPECT_EQ(to_ue8m0(0.0F).bits, 0);
  EXPECT_EQ(to_ue8m0(-0.0F).bits, 0);
  EXPECT_EQ(to_ue8m0(kInfinity).bits, 254);
  EXPECT_EQ(to_ue8m0(-1.0F).bits, 0xff);
  EXPECT_EQ(to_ue8m0(-kInfinity).bits, 0xff);
}

}  // namespace
}  // namespace pinch
