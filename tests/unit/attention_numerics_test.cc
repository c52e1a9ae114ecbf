// The numerics of attention against references that share nothing with them: 2^x in FP64, codes by a search among the
// values of the format with midpoints compared exactly, scales derived in FP64.
#include "kernels/attention/numerics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace pinch::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class Visit>
void for_each_bf16(Visit visit) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) visit(to_f32(Bf16{static_cast<std::uint16_t>(bits)}));
}

/// The code whose value is nearest, ties to the even one, by trying all below `codes`.
template <class Code>
std::uint32_t nearest_code(double value, std::uint32_t codes) {
  std::uint32_t best = 0;
  for (std::uint32_t code = 1; code < codes; ++code) {
    const double before = std::fabs(value - to_f32(Code{static_cast<std::uint8_t>(best)}));
    const double now = std::fabs(value - to_f32(Code{static_cast<std::uint8_t>(code)}));
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return best;
}
std::uint32_t nearest_e4m3(double value) {
  return nearest_code<E4m3>(value, 0x7f);
}
std::uint32_t nearest_e2m1(double value) {
  return nearest_code<E2m1>(value, 8);
}

template <int kDegree>
void expect_exp2_within_its_error() {
  double worst = 0;
  for (std::uint32_t i = 0; i < (1U << 23); i += 7) {  // the fractions of one binade stand for those of all
    const float x = static_cast<float>(i) * 0x1p-23F;
    worst = std::max(worst, std::fabs(exp2_poly<kDegree>(x) / std::exp2(static_cast<double>(x)) - 1));
  }
  EXPECT_LE(worst, kPolyError[kDegree - 3]) << "degree " << kDegree;
  EXPECT_GE(worst, 0.7 * kPolyError[kDegree - 3]) << "degree " << kDegree << ": the stated error is not slack";
  for_each_bf16([&](float x) {
    const float y = exp2_poly<kDegree>(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(y));
    } else if (x < -126.0F) {
      EXPECT_EQ(y, 0.0F) << x;
    } else if (x < 128.0F) {
      const double want = std::exp2(static_cast<double>(x));
      EXPECT_LE(std::fabs(y - want), kPolyError[kDegree - 3] * want) << x;
      EXPECT_TRUE(y == want || x != std::floor(x)) << x;
    }
  });
  EXPECT_TRUE(std::isnan(exp2_poly<kDegree>(detail::f32_from_bits(0x7FFFFFFF)))) << "a device's NaN";
}

TEST(AttentionNumerics, Exp2IsWithinItsErrorForEveryBf16AndExactForIntegers) {
  expect_exp2_within_its_error<3>();
  expect_exp2_within_its_error<4>();
  expect_exp2_within_its_error<5>();
}

TEST(AttentionNumerics, MixedExp2TakesItsShareOfEachGroup) {
  for (int sixteenths = 1; sixteenths < kGroup; ++sixteenths) {
    int count = 0;
    for (int place = 0; place < kGroup; ++place) count += by_polynomial(place, sixteenths);
    EXPECT_EQ(count, sixteenths);
  }
  const float x = -0.3F;
  int cubic = 0;
  for (int place = 0; place < kGroup; ++place) {
    const float y = exp2_of<Exp2::kMixed, 5>(x, place);
    EXPECT_TRUE(y == exp2_poly<3>(x) || y == exp2_hardware(x));
    cubic += y == exp2_poly<3>(x);
  }
  EXPECT_EQ(cubic, 5);
}

TEST(AttentionNumerics, Fp8RoundsEveryBf16ProbabilityAndEveryTieToNearestEven) {
  for_each_bf16([](float p) {
    if (std::signbit(p) || !(p <= 1.0F)) return;
    EXPECT_EQ(quantize_fp8(p).bits, nearest_e4m3(256.0 * p)) << p;
  });
  for (std::uint8_t code = 0; code < 0x7e; ++code) {
    const float low = to_f32(E4m3{code}), high = to_f32(E4m3{static_cast<std::uint8_t>(code + 1)});
    const float tie = (low + high) / 2 / 256;
    const auto even = static_cast<std::uint8_t>(code + code % 2);
    EXPECT_EQ(quantize_fp8(tie).bits, even);
    EXPECT_EQ(quantize_fp8(std::nextafter(tie, 0.0F)).bits, code);
    EXPECT_EQ(quantize_fp8(std::nextafter(tie, 1e9F)).bits, code + 1);
  }
}

TEST(AttentionNumerics, Fp4RoundsEveryTieToNearestEvenInBothForms) {
  const Fp4Scale whole{E4m3{0x38}, 1.0F};
  for (std::uint8_t code = 0; code < 7; ++code) {
    const float tie = (to_f32(E2m1{code}) + to_f32(E2m1{static_cast<std::uint8_t>(code + 1)})) / 2;
    const float below = std::nextafter(tie, 0.0F), above = std::nextafter(tie, 9.0F);
    const auto even = static_cast<std::uint8_t>(code + code % 2);
    EXPECT_EQ(fp4_linear_code(tie, whole).bits, even);
    EXPECT_EQ(fp4_linear_code(below, whole).bits, code);
    EXPECT_EQ(fp4_linear_code(above, whole).bits, code + 1);
    EXPECT_EQ(fp4_log_code(tie).bits, even);
    EXPECT_EQ(fp4_log_code(below).bits, code);
    EXPECT_EQ(fp4_log_code(above).bits, code + 1);
  }
  for_each_bf16([](float value) {
    if (std::signbit(value) || std::isnan(value)) return;
    EXPECT_EQ(fp4_log_code(value).bits, nearest_e2m1(std::min(value, 100.0F))) << value;
  });
}

TEST(AttentionNumerics, Fp4RoundIsTheNearestCodesValueForEveryBf16AndAroundEveryTie) {
  const auto check = [](float x) {
    EXPECT_EQ(fp4_round(x), to_f32(E2m1{static_cast<std::uint8_t>(nearest_code<E2m1>(x, 8))})) << x;
  };
  for_each_bf16([&](float x) {
    if (x >= 0 && x < 7) check(x);
  });
  for (const float tie : {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F, 6.0F}) {
    check(tie);
    check(std::nextafter(tie, 0.0F));
    check(std::nextafter(tie, 7.0F));
  }
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(0, 7);
  for (int i = 0; i < 100000; ++i) check(std::nextafter(uniform(random), 0.0F));
  EXPECT_TRUE(std::isnan(fp4_round(std::numeric_limits<float>::quiet_NaN())));
}

TEST(AttentionNumerics, ScaleOfEveryBf16GroupMaximumIsTheNearestInBothForms) {
  int apart = 0, ties = 0;
  for_each_bf16([&](float top) {
    if (!(top > 0 && top <= 1.0F)) return;
    const double held = std::max(static_cast<double>(top), 0x1p-100);
    const Fp4Scale linear = fp4_linear_scale(top);
    EXPECT_EQ(linear.scale.bits, nearest_e4m3(448 * held)) << top;
    EXPECT_LE(std::fabs(linear.fold * held / 6 - 1), 0x1p-23) << top;
    const Fp4LogScale log = fp4_log_scale<Exp2::kHardware>(std::log2(top));
    if (log.scale.bits != linear.scale.bits) {
      // log2, a sum near it and 2^x round: 448 * top is that near to a midpoint.
      ++apart;
      const auto upper = static_cast<std::uint8_t>(std::max(log.scale.bits, linear.scale.bits));
      const double tie = (to_f32(E4m3{upper}) + to_f32(E4m3{static_cast<std::uint8_t>(upper - 1)})) / 2;
      EXPECT_LE(std::fabs(448 * held / tie - 1), 4e-6) << top;
    }
    const double scaled = 448 * held, value = to_f32(linear.scale);
    const auto next = static_cast<std::uint8_t>(linear.scale.bits + (scaled > value ? 1 : -1));
    ties += scaled != value && scaled - value == to_f32(E4m3{next}) - scaled;
    EXPECT_LE(std::fabs(std::exp2(static_cast<double>(log.fold)) * 6 / held - 1), 1e-5) << top;
    EXPECT_LE(std::fabs(log.unit / (held / 6) - 1), 1e-5) << top;
  });
  EXPECT_LE(apart, ties) << "only where 448 times the maximum is a midpoint";
  EXPECT_EQ(fp4_linear_scale(1.0F).scale.bits, 0x7e) << "the largest P has the largest scale, exactly";
  EXPECT_EQ(fp4_log_scale<Exp2::kPoly3>(0.0F).scale.bits, 0x7e);
}

/// Scores in log2 units of `keys` keys that are normal with this deviation (natural units).
struct Scores {
  std::vector<float> s;
  float m = -kInfinity;  ///< the largest
};
Scores random_scores(double sigma, int keys, std::mt19937& bits) {
  std::normal_distribution<float> normal(0, static_cast<float>(sigma * 1.4426950408889634));
  Scores scores{std::vector<float>(static_cast<std::size_t>(keys))};
  for (float& value : scores.s) scores.m = larger(value = normal(bits), scores.m);
  return scores;
}

/// Codes and scales that the two forms give differently, and how far from a tie the farthest such code is.
struct Difference {
  int codes = 0, scales = 0;
  double from_tie = 0;
};
template <Exp2 kExp2>
Difference compare_forms(const Scores& scores, float fault = 0) {
  const auto [s, m] = scores;
  Difference difference;
  for (std::size_t first = 0; first < s.size(); first += kGroup) {
    float p[kGroup];
    for (int i = 0; i < kGroup; ++i) p[i] = exp2_of<kExp2>(s[first + i] - m);
    const float top = group_max(&s[first]);
    const Fp4Scale linear = fp4_linear_scale(group_max(p));
    const Fp4LogScale log = fp4_log_scale<kExp2>(top - m);
    difference.scales += linear.scale.bits != log.scale.bits;
    for (int i = 0; i < kGroup; ++i) {
      const E2m1 a = fp4_linear_code(p[i], linear);
      const E2m1 b = fp4_log_code(exp2_of<kExp2>(s[first + i] - m - log.fold - fault));
      if (a == b) continue;
      ++difference.codes;
      const auto upper = static_cast<std::uint8_t>(std::max(a.bits, b.bits));
      const double tie = (to_f32(E2m1{upper}) + to_f32(E2m1{static_cast<std::uint8_t>(upper - 1)})) / 2;
      const double exact = std::exp2(static_cast<double>(s[first + i]) - top) * 6;
      difference.from_tie = std::max(difference.from_tie, std::fabs(exact / tie - 1));
    }
  }
  return difference;
}

TEST(AttentionNumerics, LinearAndLogGiveTheSameCodes) {
  std::mt19937 bits(7);
  for (const double sigma : {1.0, 3.0, 6.0}) {
    const Scores x = random_scores(sigma, 24576, bits);
    const Difference exact = compare_forms<Exp2::kHardware>(x);
    EXPECT_EQ(exact.codes, 0) << sigma;
    EXPECT_EQ(exact.scales, 0) << sigma;
    // Of very many codes a few differ: at a tie but for three errors of 2^x and the roundings of exponents below 128.
    const Difference rare = compare_forms<Exp2::kHardware>(random_scores(sigma, 1 << 22, bits));
    EXPECT_LE(rare.from_tie, 3 * kPolyError[2] + 3 * 0.6931 * 0x1p-18) << sigma;
    EXPECT_LE(rare.codes + rare.scales, 40) << sigma << ": a code in 10^5";
    // A cruder 2^x errs differently for the two arguments: what differs lies within both errors of a tie.
    const Difference cubic = compare_forms<Exp2::kPoly3>(x);
    EXPECT_LE(cubic.from_tie, 2.5 * kPolyError[0]) << sigma;
    EXPECT_GT(compare_forms<Exp2::kHardware>(x, 0.001F).codes, 0) << "a fold off by 1/1000 shows";
    const Difference quartic = compare_forms<Exp2::kPoly4>(x);
    EXPECT_LE(quartic.from_tie, 2.5 * kPolyError[1] + 1e-5) << sigma;
  }
}

TEST(AttentionNumerics, GroupsWithoutAKeyOrFarBelowAreZeroNotNaN) {
  for (const float top : {-kInfinity, -120.0F}) {
    const Fp4LogScale log = fp4_log_scale<Exp2::kPoly3>(top);
    EXPECT_EQ(log.scale.bits, 0);
    EXPECT_EQ(fp4_log_code(exp2_of<Exp2::kPoly3>(top - log.fold)).bits, 0);
    const float p = exp2_of<Exp2::kPoly3>(top);
    const Fp4Scale linear = fp4_linear_scale(p);
    EXPECT_EQ(linear.scale.bits, 0);
    EXPECT_EQ(fp4_linear_code(p, linear).bits, 0);
  }
  EXPECT_EQ(subtrahend(-kInfinity), 0.0F);
  EXPECT_EQ(subtrahend(-3.0F), -3.0F);
}

TEST(AttentionNumerics, TheOffsetKeepsGroupScalesFromUnderflow) {
  std::mt19937 bits(8);
  const auto share_of_zeros = [&](double sigma, double factor) {
    int zeros = 0, groups = 0;
    for (int row = 0; row < 64; ++row) {
      const auto [s, m] = random_scores(sigma, 1024, bits);
      for (std::size_t first = 0; first < s.size(); first += kGroup, ++groups) {
        zeros +=
            to_e4m3(static_cast<float>(factor * std::exp2(static_cast<double>(group_max(&s[first]) - m)))).bits == 0;
      }
    }
    return static_cast<double>(zeros) / groups;
  };
  // Facts of the field for e4m3(g / 6): 39% at sigma 3 and 84% at 6.
  EXPECT_NEAR(share_of_zeros(3, 1.0 / 6), 0.39, 0.05);
  EXPECT_NEAR(share_of_zeros(6, 1.0 / 6), 0.84, 0.05);
  EXPECT_LT(share_of_zeros(3, 448), 0.005);
  EXPECT_LT(share_of_zeros(6, 448), 0.35);
}

TEST(AttentionNumerics, TheMaximumMovesOnlyBeyondTheThreshold) {
  EXPECT_EQ(next_max(-kInfinity, -5.0F, 8.0F), -5.0F);
  EXPECT_EQ(next_max(-kInfinity, -kInfinity, 0.0F), -kInfinity);
  EXPECT_EQ(next_max(1.0F, 9.0F, 8.0F), 1.0F);
  EXPECT_EQ(next_max(1.0F, 9.5F, 8.0F), 9.5F);
  EXPECT_EQ(next_max(1.0F, 0.5F, 0.0F), 1.0F);
  // What the headroom admits is quantised without saturation, and what is above is not.
  EXPECT_EQ(quantize_fp8(std::exp2(headroom_log2(PvType::kFp8))).bits, 0x7e);
  EXPECT_LT(std::exp2(headroom_log2(PvType::kFp8) + 8), 449);
  EXPECT_GT(std::exp2(8.0F + 8.0F), kE4m3Max) << "a threshold of 8 overflows fp8";
  EXPECT_EQ(fp4_linear_scale(std::exp2(headroom_log2(PvType::kFp4))).scale.bits, 0x7e);
}

// Every mantissa of x and amax, 24 binades of x below an amax near each end of the range and in it.
TEST(AttentionNumerics, QuotientsByAnFp8ScaleAreThoseOfADivision) {
  const auto bf16 = [](int exponent, int mantissa) {
    return to_f32(Bf16{static_cast<std::uint16_t>(exponent << 7 | mantissa)});
  };
  long one_product_differs = 0;
  for (const int top : {0, 1, 3, 66, 67, 68, 127, 200, 253, 254}) {
    for (int m = top == 0 ? 1 : 0; m < 128; ++m) {
      const float amax = bf16(top, m), scale = fp8_scale(amax);
      const Fp8Divisor by = fp8_divisor(scale);
      for (int exponent = std::max(0, top - 23); exponent <= top; ++exponent) {
        for (int mantissa = 0; mantissa < (exponent == top ? m + 1 : 128); ++mantissa) {
          const float x = bf16(exponent, mantissa);
          ASSERT_EQ(divide(x, by), x / scale) << x << " of " << amax;
          ASSERT_EQ(divide(-x, by), -x / scale) << x << " of " << amax;
          one_product_differs += to_e4m3(x * (1.0F / scale)).bits != to_e4m3(x / scale).bits;
        }
      }
    }
  }
  EXPECT_GT(one_product_differs, 0) << "the remainder is needed";
  EXPECT_EQ(divide(0.0F, fp8_divisor(fp8_scale(0.0F))), 0.0F);
  EXPECT_TRUE(std::isnan(divide(1.0F, fp8_divisor(fp8_scale(std::nanf(""))))));
}

// V in two levels, against FP64 and a search; few of these scales are powers of two. Two FP32 roundings come before
// each code, so that only what lies within them of a tie may fall to the other side.
TEST(AttentionNumerics, ValuesInFp4AreTheNearestOfTheirTwoLevels) {
  EXPECT_EQ(fp4_v_global(0.0F), 1.0F);
  EXPECT_EQ(fp4_v_global(2688.0F), 1.0F);
  EXPECT_EQ(fp4_v_global(2688.0F * 0x1p-126F), 0x1p126F);
  EXPECT_EQ(fp4_v_global(2687.0F * 0x1p-126F), 0x1p126F) << "above: held";
  EXPECT_EQ(fp4_v_global(2689.0F * 0x1p-126F), static_cast<float>(2688.0 / (2689.0 * 0x1p-126))) << "below: not";
  EXPECT_EQ(fp4_v_global(0x1p-133F), 0x1p126F) << "the smallest bf16";
  constexpr double kRoundings = 0x1p-22;
  const auto near = [&](double value, auto nearest, std::uint32_t got) {
    return nearest(value * (1 - kRoundings)) == got || nearest(value * (1 + kRoundings)) == got;
  };
  std::mt19937 bits(11);
  const auto uniform = [&] { return static_cast<double>(bits()) / 4294967296.0; };
  int odd_scales = 0, codes_seen = 0;
  for (int group = 0; group < 2000; ++group) {
    const double amax = std::exp2(-30 + 60 * uniform());
    const float head = to_f32(to_bf16(static_cast<float>(amax)));
    const float global = fp4_v_global(head);
    ASSERT_EQ(global, static_cast<float>(2688.0 / static_cast<double>(head))) << head;
    const float top = to_f32(to_bf16(static_cast<float>(head * std::exp2(-12 * uniform()))));
    const E4m3 scale = fp4_v_scale(top, global);
    ASSERT_TRUE(near(static_cast<double>(top) * global / 6, nearest_e4m3, scale.bits)) << top << " of " << head;
    odd_scales += scale.bits % 8 != 0;
    for (int i = 0; i < 8; ++i) {
      const float v = to_f32(to_bf16(static_cast<float>(top * uniform())));
      const std::uint32_t code = fp4_v_code(v, scale, global).bits;
      ASSERT_TRUE(near(static_cast<double>(v) * global / to_f32(scale), nearest_e2m1, code)) << v << " of " << top;
      ASSERT_EQ(fp4_v_code(-v, scale, global).bits, code | 8U) << v;
      codes_seen |= 1 << code;
    }
  }
  EXPECT_GT(odd_scales, 1000) << "no powers of two";
  EXPECT_EQ(codes_seen, 0xff) << "every magnitude";
  EXPECT_EQ(fp4_v_scale(0.0F, 1.0F).bits, 0);
  EXPECT_EQ(fp4_v_code(1.0F, E4m3{0}, 1.0F).bits, 0) << "a group without a scale";
  // Where global is held at 2^126: values of 2^-126 and below keep 1 / global a normal number.
  const float small = fp4_v_global(0x1p-126F);
  EXPECT_EQ(fp4_v_scale(0x1.8p-126F, small).bits, nearest_e4m3(1.5 / 6));
  EXPECT_EQ(fp4_v_code(0x1p-127F, fp4_v_scale(0x1.8p-126F, small), small).bits, nearest_e2m1(0.5 / 0.25));
}

/// Relative L2 error of O over rows of 64 keys whose scores are about 2^exponent in log2 units: with `spread` within a
/// few units of one another, without it one far above the others. `exponent_of` gives s - max in log2 units.
template <class ExponentOf>
double error_at_huge_scores(int exponent, bool spread, ExponentOf exponent_of) {
  constexpr int kKeys = 64;
  const auto scale = static_cast<float>(1.4426950408889634 / std::sqrt(128.0));
  std::mt19937 bits(static_cast<unsigned>(exponent));
  const auto uniform = [&] { return static_cast<double>(bits()) / 2147483648.0 - 1; };
  double error2 = 0, norm2 = 0;
  for (int row = 0; row < 500; ++row) {
    const double top = std::ldexp(1.5 + 0.5 * uniform(), exponent) / static_cast<double>(scale);
    float s[kKeys], v[kKeys], highest = -kInfinity;
    for (int j = 0; j < kKeys; ++j) {
      s[j] = static_cast<float>(spread ? top + 5 * uniform() / static_cast<double>(scale) : j == 7 ? top : uniform());
      v[j] = to_f32(to_bf16(static_cast<float>(uniform())));
      highest = larger(s[j], highest);
    }
    double want_sum = 0, want = 0, got = 0;
    float sum = 0;
    for (int j = 0; j < kKeys; ++j) {
      const double exact =
          std::exp2((static_cast<double>(s[j]) - static_cast<double>(highest)) * static_cast<double>(scale));
      want_sum += exact, want += exact * static_cast<double>(v[j]);
      const float p = exp2_hardware(exponent_of(s[j], highest, scale));
      sum += p, got += static_cast<double>(to_f32(to_bf16(p))) * static_cast<double>(v[j]);
    }
    const double o = want / want_sum;
    error2 += std::pow(got / static_cast<double>(sum) - o, 2), norm2 += o * o;
  }
  return std::sqrt(error2 / norm2);
}

// The kernels' exponents at scores that no model has. One multiply-add (Hopper): the maximum's rounding is a factor of
// the whole row, which the division takes out again, so that only P's own rounding is left wherever the scores are;
// below 2^15 the largest P still rounds to exactly 1. P's rounding is uniform within half a unit in the last place,
// 2^-7 of a P just above 1, where it is largest beside P: 2^-7 / sqrt 12 = .0023 in the mean square. Scores scaled
// first (CPU): each loses half a unit in its last place on the way, as FP32 sums of products do: the same up to 2^17.
TEST(AttentionNumerics, HugeScoresCostNoMoreThanTheRoundingOfP) {
  const auto fused = [](float s, float top, float scale) { return fma(s, scale, -(top * scale)); };
  const auto scaled_first = [](float s, float top, float scale) {
    const float scaled = s * scale, m = top * scale;
    return scaled - m;
  };
  const double rounding = 0x1p-7 / std::sqrt(12.0);
  for (int exponent = 4; exponent <= 20; ++exponent) {
    for (const bool spread : {false, true})
      EXPECT_LE(error_at_huge_scores(exponent, spread, fused), rounding) << exponent;
  }
  for (int exponent = 4; exponent <= 20; ++exponent) {
    const double of_score = std::log(2.0) * std::ldexp(1.0, exponent - 23) / std::sqrt(12.0);
    EXPECT_LE(error_at_huge_scores(exponent, true, scaled_first), std::hypot(rounding, of_score)) << exponent;
  }
  EXPECT_GT(error_at_huge_scores(20, true, scaled_first), 0x1p-7) << "the measure sees a lost place";
  EXPECT_LE(error_at_huge_scores(14, false, fused), 0x1p-11) << "the largest P is 1, its sum all but";
  for (float top = 1; top < 0x1p15F; top *= 1.0009F)
    EXPECT_EQ(to_f32(to_bf16(exp2_hardware(fused(top, top, 0.1275174F)))), 1.0F) << top;
}

TEST(AttentionNumerics, WhatACodeStandsForIsExactInBf16) {
  for (std::uint8_t code = 0; code < 8; ++code) {
    for (std::uint8_t scale = 0; scale < 0x7f; ++scale) {
      const float value = fp4_value(E2m1{code}, E4m3{scale});
      EXPECT_EQ(to_f32(to_bf16(value)), value);
    }
  }
  for (std::uint8_t code = 0; code < 0x7f; ++code) EXPECT_EQ(to_f32(to_bf16(to_f32(E4m3{code}))), to_f32(E4m3{code}));
}

}  // namespace
}  // namespace pinch::attention
