// What attention computes with beside its two products, written once for host and device: 2^x by polynomial, the
// quantisers of the probabilities P = exp2(s - m) in [0, 1], group maxima, and when a running maximum moves.
//
//   P.V     what is multiplied                        stands for            largest P that fits
//   bf16    bf16(P)                                   P                     no bound in reach
//   fp8     e4m3(P * 2^8)                             P * 2^8               2^0.807 (448 / 2^8)
//   fp4     e2m1 code * e4m3 scale, a group of 16     P * 448 * 6           1
//
// Host and device agree to the bit except in exp2_hardware: ex2.approx.ftz on a device, degree 5 on the host; both are
// within 2 units in the last place of an FP32 number. Sources: OCP OFP8 1.0 and MX 1.0 for the codes; polynomials by
// Remez exchange of the relative error on [0, 1) with p(0) = 1, so that 2^0 is exact; docs/design/attention.md derives
// the scales.
#pragma once

#include <cstdint>

#include "pinch/attention_problem.h"
#include "pinch/formats.h"

namespace pinch::attention {

/// How 2^x is computed. kMixed: `sixteenths` of every 16 neighbouring keys by kPoly3, the others by kHardware.
enum class Exp2 : std::uint8_t { kHardware, kPoly3, kPoly4, kPoly5, kMixed };
constexpr const char* to_string(Exp2 exp2) {
  switch (exp2) {
    case Exp2::kHardware:
      return "hardware";
    case Exp2::kPoly3:
      return "poly3";
    case Exp2::kPoly4:
      return "poly4";
    case Exp2::kPoly5:
      return "poly5";
    case Exp2::kMixed:
      return "mixed";
  }
  return "?";
}

/// How a group of 16 probabilities becomes NVFP4: with the maximum, a division and a scaling pass after exp2, or with
/// the maximum before it and the scale folded into its argument.
enum class Quant : std::uint8_t { kLinear, kLog };
constexpr const char* to_string(Quant quant) {
  return quant == Quant::kLinear ? "linear" : "log";
}

inline constexpr int kGroup = 16;  ///< keys that share an NVFP4 scale

/// Largest relative error of 2^x by degree 3, 4, 5, rounding of the FP32 evaluation included.
inline constexpr double kPolyError[] = {8.6e-5, 3.0e-6, 1.9e-7};

PINCH_HD inline float fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

/// p(f) for f in [0, 1): 2^f within kPolyError. p(0) is 1.
template <int kDegree>
PINCH_HD inline float exp2_fraction(float f) {
  static_assert(kDegree >= 3 && kDegree <= 5, "degree 3, 4 or 5");
  if constexpr (kDegree == 3) {
    return fma(fma(fma(0x1.3baaa6p-4F, f, 0x1.d2378ap-3F), f, 0x1.63e658p-1F), f, 1.0F);
  } else if constexpr (kDegree == 4) {
    return fma(fma(fma(fma(0x1.b7f73p-7F, f, 0x1.abf868p-5F), f, 0x1.ee245p-3F), f, 0x1.62d6c6p-1F), f, 1.0F);
  } else {
    return fma(
        fma(fma(fma(fma(0x1.e974fap-10F, f, 0x1.277856p-7F), f, 0x1.c91ce6p-5F), f, 0x1.ebdb56p-3F), f, 0x1.62e4bap-1F),
        f, 1.0F);
  }
}

/// 2^x for x up to 127, minus infinity included, as 2^floor(x) * p(x - floor(x)). Below -126 exactly 0. A NaN stays
/// one: only the factor 2^floor(x) is put together in integers (bits added to p would make a number of a device's NaN,
/// 0x7fffffff).
template <int kDegree>
PINCH_HD inline float exp2_poly(float x) {
  constexpr float kRounder = 0x1.8p23F + 127;  // adding it rounds to an integer n, and leaves n + 127 in the low bits
  const float low = x < -127.0F ? -127.0F : x;
#if defined(__CUDA_ARCH__)
  const float shifted = __fadd_rd(low, kRounder);
  const float whole = shifted - kRounder;
#else
  const float nearest = (low + kRounder) - kRounder;
  const float whole = nearest > low ? nearest - 1.0F : nearest;
  const float shifted = whole + kRounder;
#endif
  return exp2_fraction<kDegree>(low - whole) * detail::f32_from_bits(detail::f32_to_bits(shifted) << 23);
}

/// The exponential unit of a GPU; on the host, which has none, degree 5.
PINCH_HD inline float exp2_hardware(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2_poly<5>(x);
#endif
}

/// Whether kMixed computes the key at `place` of its group by polynomial: the first of each 16 / sixteenths, so that
/// the two units take turns.
PINCH_HD constexpr bool by_polynomial(int place, int sixteenths) {
  return place * sixteenths % kGroup < sixteenths;
}

/// 2^x. `place` is the key's in its group of 16 and counts for kMixed alone.
template <Exp2 kExp2, int kSixteenths = 0>
PINCH_HD inline float exp2_of(float x, int place = 0) {
  if constexpr (kExp2 == Exp2::kPoly3) return exp2_poly<3>(x);
  if constexpr (kExp2 == Exp2::kPoly4) return exp2_poly<4>(x);
  if constexpr (kExp2 == Exp2::kPoly5) return exp2_poly<5>(x);
  if constexpr (kExp2 == Exp2::kMixed) {
    static_assert(kExp2 != Exp2::kMixed || (kSixteenths > 0 && kSixteenths < kGroup), "1 to 15 of 16 by polynomial");
    if (by_polynomial(place, kSixteenths)) return exp2_poly<3>(x);
  }
  return exp2_hardware(x);
}

/// The larger; the second where the first is a NaN.
PINCH_HD constexpr float larger(float a, float b) {
  return a > b ? a : b;
}

/// Largest of the 16 values at `values`.
PINCH_HD constexpr float group_max(const float* values) {
  float top = values[0];
  for (int i = 1; i < kGroup; ++i) top = larger(values[i], top);
  return top;
}

/// log2 of what a quantised P is multiplied by, and of the largest P it has room for: a rescale threshold must not
/// exceed it.
inline constexpr float kLog2Six = 2.5849625F, kLog2E4m3Max = 8.8073549F;
inline constexpr float kFp8Offset = 8.0F;
inline constexpr float kFp4Offset = kLog2E4m3Max + kLog2Six;
PINCH_HD constexpr float p_offset(PvType pv) {
  return pv == PvType::kBf16 ? 0.0F : pv == PvType::kFp8 ? kFp8Offset : kFp4Offset;
}
PINCH_HD constexpr float headroom_log2(PvType pv) {
  return pv == PvType::kBf16 ? 64.0F : pv == PvType::kFp8 ? kLog2E4m3Max - kFp8Offset : 0.0F;
}

/// The maximum to subtract after a tile whose largest score is `tile_max`: it moves only when that is `threshold`
/// (log2 units) above it, and P then stays below 2^threshold. The first finite score always moves it.
PINCH_HD constexpr float next_max(float m, float tile_max, float threshold) {
  return tile_max > m + threshold ? tile_max : m;
}
/// What to subtract: 0 where nothing has been seen yet, so that minus infinity minus it is no NaN.
PINCH_HD constexpr float subtrahend(float m) {
  return m == -__builtin_huge_valf() ? 0.0F : m;
}

/// P for an fp8 product.
PINCH_HD constexpr E4m3 quantize_fp8(float p) {
  return to_e4m3(p * 0x1p8F);
}

/// The scale of a group, as stored, and what makes codes of its probabilities.
struct Fp4Scale {
  E4m3 scale;
  float fold = 0;  ///< linear: the factor of P. log: what is subtracted from s - m
};

/// Groups whose largest P is smaller share one scale, zero: their codes count for nothing.
inline constexpr float kSmallestLog2 = -100.0F;

/// `top`: largest P of the group. Code = e2m1(P * fold).
PINCH_HD constexpr Fp4Scale fp4_linear_scale(float top) {
  const float held = larger(top, 0x1p-100F);
  return {to_e4m3(held * kE4m3Max), kE2m1Max / held};
}
PINCH_HD constexpr E2m1 fp4_linear_code(float p, const Fp4Scale& group) {
  return to_e2m1(p * group.fold);
}

/// `top`: largest s - m of the group; minus infinity where it has no visible key. Code = e2m1(exp2((s - m) - fold)),
/// and exp2(s - m) itself is that times `unit`. Where m is far from zero, s - (m + fold), one subtraction less, loses
/// bits of the fold (2^-24 m of a factor).
struct Fp4LogScale : Fp4Scale {
  float unit = 0;
};
template <Exp2 kExp2>
PINCH_HD inline Fp4LogScale fp4_log_scale(float top) {
  const float held = larger(top, kSmallestLog2);
  const float scale = exp2_of<kExp2>(held + kLog2E4m3Max);
  return {{to_e4m3(scale), held - kLog2Six}, scale * (1.0F / (kE4m3Max * kE2m1Max))};
}
/// `e` = exp2((s - m) - fold).
PINCH_HD constexpr E2m1 fp4_log_code(float e) {
  return to_e2m1(e);
}

/// to_f32(to_e2m1(x)) for x from 0 up to, but not including, 7, a NaN kept: the unit in the last place of E2M1 at x is
/// half the power of two below it (of 1 where x is smaller), and adding 1.5 * 2^23 such units makes the FP32 adder
/// round to them. Five instructions where a GPU has no conversion to E2M1.
PINCH_HD inline float fp4_round(float x) {
  const float power = detail::f32_from_bits(detail::f32_to_bits(larger(1.0F, x)) & detail::kF32Infinity);
  const float rounder = power * 0x1.8p22F;
  return (x + rounder) - rounder;
}

/// What a code stands for, P * 448 * 6: exact in bf16.
PINCH_HD constexpr float fp4_value(E2m1 code, E4m3 scale) {
  return to_f32(code) * to_f32(scale);
}

/// e4m3 scale of values that reach `amax`: amax / 448, 1 for zeros. NaN and infinity stay, and so reach every output.
PINCH_HD constexpr float fp8_scale(float amax) {
  return amax == 0.0F ? 1.0F : amax / kE4m3Max;
}

/// Quotients by one fp8_scale() with the bits of a division, in three multiply-adds where a GPU's own division takes
/// ten instructions (Markstein: a remainder corrects the product with a rounded reciprocal; a test tries every bf16 x
/// up to its amax). `lift` keeps the reciprocals of tiny scales finite. An infinite scale gives NaN, where dividing
/// gives 0: both become NaN times the scale.
struct Fp8Divisor {
  float scale, reciprocal, lift;
};
PINCH_HD constexpr Fp8Divisor fp8_divisor(float scale) {
  const float lift = scale < 0x1p-60F ? 0x1p64F : 1.0F;
  return {scale * lift, 1.0F / (scale * lift), lift};
}
PINCH_HD inline float divide(float x, const Fp8Divisor& by) {
  const float lifted = x * by.lift, quotient = lifted * by.reciprocal;
  return fma(fma(-quotient, by.scale, lifted), by.reciprocal, quotient);
}

/// NVFP4 of V, two levels as in quantize_fp4: `global` = 448 * 6 / amax of the (batch, kv head), 1 for zeros, at most
/// 2^126; V stands for code * scale / global.
PINCH_HD constexpr float fp4_v_global(float amax) {
  if (amax == 0.0F) return 1.0F;
  const float global = kE4m3Max * kE2m1Max / amax;
  return global > 0x1p126F ? 0x1p126F : global;
}
PINCH_HD constexpr E4m3 fp4_v_scale(float group_amax, float global) {
  return to_e4m3(group_amax * global / kE2m1Max);
}
PINCH_HD constexpr E2m1 fp4_v_code(float v, E4m3 scale, float global) {
  return scale.bits == 0 ? E2m1{} : to_e2m1(v * global / to_f32(scale));
}

}  // namespace pinch::attention
