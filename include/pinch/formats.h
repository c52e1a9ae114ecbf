// Low-precision number formats: conversion to and from FP32, to the bit the same on host and device.
//
//   type    bits   sign.exponent.fraction  bias  largest finite   infinity  NaN            source
//   Bf16     16    1.8.7                   127   3.3895e38        yes       yes            FP32's upper half
//   F16      16    1.5.10                   15   65504            yes       yes            IEEE 754 binary16
//   E4m3      8    1.4.3                     7   448              no        s.1111.111     OCP OFP8 1.0
//   E5m2      8    1.5.2                    15   57344            yes       s.11111.{01,10,11}  OCP OFP8 1.0
//   E2m1      4    1.2.1                     1   6                no        no             OCP MX 1.0
//   Ue8m0     8    0.8.0                   127   2^127            no        0xff           OCP MX 1.0
//
// Every to_f32 is exact. Every conversion from FP32 rounds to nearest, ties to the even code; it assumes the
// floating-point environment's default rounding and works with FP32 subnormals flushed or not, Ue8m0's 2^-127 aside.
// Equality of two codes is equality of bits: -0 differs from +0, and a NaN equals itself.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define PINCH_HD __host__ __device__
#else
#define PINCH_HD
#endif

namespace pinch {

struct Bf16 {
  std::uint16_t bits = 0;
  friend bool operator==(const Bf16&, const Bf16&) = default;
};
struct F16 {
  std::uint16_t bits = 0;
  friend bool operator==(const F16&, const F16&) = default;
};
struct E4m3 {
  std::uint8_t bits = 0;
  friend bool operator==(const E4m3&, const E4m3&) = default;
};
struct E5m2 {
  std::uint8_t bits = 0;
  friend bool operator==(const E5m2&, const E5m2&) = default;
};
/// The code is the low nibble; the high nibble is not read by to_f32 and is 0 in results.
struct E2m1 {
  std::uint8_t bits = 0;
  friend bool operator==(const E2m1&, const E2m1&) = default;
};
/// A scale 2^(bits - 127); it has neither a sign nor a zero.
struct Ue8m0 {
  std::uint8_t bits = 0;
  friend bool operator==(const Ue8m0&, const Ue8m0&) = default;
};

inline constexpr float kE4m3Max = 448.0F;
inline constexpr float kE5m2Max = 57344.0F;
inline constexpr float kE2m1Max = 6.0F;

namespace detail {

// std::bit_cast is not a device function without a compiler option; the builtin behind it is.
PINCH_HD constexpr std::uint32_t f32_to_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
PINCH_HD constexpr float f32_from_bits(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

inline constexpr std::uint32_t kF32Magnitude = 0x7fffffffU;
inline constexpr std::uint32_t kF32Infinity = 0x7f800000U;

/// a where condition, else b. Written with a mask because compilers turn ?: into branches that stop loops from
/// vectorising.
PINCH_HD constexpr std::uint32_t select(bool condition, std::uint32_t a, std::uint32_t b) {
  return b ^ ((a ^ b) & (0U - static_cast<std::uint32_t>(condition)));
}
/// a < b for magnitudes: as signed numbers, since baseline x86 compares vectors of no others.
PINCH_HD constexpr bool less(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b);
}
PINCH_HD constexpr std::uint32_t smaller(std::uint32_t a, std::uint32_t b) {
  return select(less(a, b), a, b);
}
PINCH_HD constexpr bool is_nan(std::uint32_t magnitude) {
  return less(kF32Infinity, magnitude);
}

/// FP32 `bits` without their `dropped` lowest ones, rounded to nearest even. A carry moves into the exponent, as it
/// should.
PINCH_HD constexpr std::uint32_t drop_bits(std::uint32_t bits, int dropped) {
  const std::uint32_t below_half = (1U << (dropped - 1)) - 1U;
  return (bits + below_half + ((bits >> dropped) & 1U)) >> dropped;
}

/// Magnitudes of a format narrower than FP32: the codes ascend from zero through the subnormals and the normals. Both
/// directions compute the two cases and select, so that loops over them vectorise.
template <int kFraction, int kBias>
struct Minifloat {
  static constexpr int kDropped = 23 - kFraction;
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  static constexpr std::uint32_t kSmallestNormal = kRebias + (1U << 23);
  /// FP32 bits of the power of two whose unit in the last place is the format's smallest subnormal.
  static constexpr std::uint32_t kAligner = static_cast<std::uint32_t>(127 + 24 - kBias - kFraction) << 23;
  /// FP32 bits of the smallest subnormal.
  static constexpr std::uint32_t kSmallest = static_cast<std::uint32_t>(127 + 1 - kBias - kFraction) << 23;

  /// Code of an FP32 magnitude given as bits; it must not round above the format's largest code.
  PINCH_HD static constexpr std::uint32_t encode(std::uint32_t magnitude) {
    // Adding the aligner makes the FP32 adder round a subnormal result, ties to even.
    const std::uint32_t subnormal = f32_to_bits(f32_from_bits(magnitude) + f32_from_bits(kAligner)) - kAligner;
    const std::uint32_t normal = drop_bits(magnitude - kRebias, kDropped);
    return select(less(magnitude, kSmallestNormal), subnormal, normal);
  }

  /// FP32 bits of a finite magnitude's code.
  PINCH_HD static constexpr std::uint32_t decode(std::uint32_t code) {
    const float subnormal = static_cast<float>(static_cast<std::int32_t>(code)) * f32_from_bits(kSmallest);
    const std::uint32_t normal = (code << kDropped) + kRebias;
    return select(less(code, 1U << kFraction), f32_to_bits(subnormal), normal);
  }
};

}  // namespace detail

/// Exact. A NaN keeps its sign and payload.
PINCH_HD constexpr float to_f32(Bf16 value) {
  return detail::f32_from_bits(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Exact. A NaN keeps its sign and payload.
PINCH_HD constexpr float to_f32(F16 value) {
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  const std::uint32_t sign = (value.bits & 0x8000U) << 16;
  const std::uint32_t special = detail::kF32Infinity | (magnitude << 13);
  const std::uint32_t finite = detail::Minifloat<10, 15>::decode(magnitude);
  return detail::f32_from_bits(sign | detail::select(detail::less(magnitude, 0x7c00U), finite, special));
}

/// Exact. 0x7f and 0xff give a quiet NaN of their sign.
PINCH_HD constexpr float to_f32(E4m3 value) {
  const std::uint32_t magnitude = value.bits & 0x7fU;
  const std::uint32_t sign = (value.bits & 0x80U) << 24;
  const std::uint32_t finite = detail::Minifloat<3, 7>::decode(magnitude);
  return detail::f32_from_bits(sign | detail::select(magnitude == 0x7fU, 0x7fc00000U, finite));
}

/// Exact: the upper byte of an F16. A NaN keeps its sign and payload.
PINCH_HD constexpr float to_f32(E5m2 value) {
  return to_f32(F16{static_cast<std::uint16_t>(value.bits << 8)});
}

/// Exact: 0 0.5 1 1.5 2 3 4 6 and their negatives.
PINCH_HD constexpr float to_f32(E2m1 value) {
  return detail::f32_from_bits(((value.bits & 8U) << 28) | detail::Minifloat<1, 1>::decode(value.bits & 7U));
}

/// Exact: 2^(bits - 127), an FP32 subnormal for bits 0; 0xff gives NaN.
PINCH_HD constexpr float to_f32(Ue8m0 value) {
  const std::uint32_t code = value.bits;
  if (code == 0) return detail::f32_from_bits(0x00400000U);
  return detail::f32_from_bits(code == 0xffU ? 0x7fc00000U : code << 23);
}

/// Nearest bf16. Overflow gives infinity (IEEE 754); a NaN becomes quiet and keeps its sign and upper payload bits.
PINCH_HD constexpr Bf16 to_bf16(float value) {
  const std::uint32_t bits = detail::f32_to_bits(value);
  const bool nan = detail::is_nan(bits & detail::kF32Magnitude);
  return {static_cast<std::uint16_t>(detail::select(nan, (bits >> 16) | 0x40U, detail::drop_bits(bits, 16)))};
}

/// Nearest f16. Overflow gives infinity (IEEE 754); a NaN becomes quiet and keeps its sign and upper payload bits.
PINCH_HD constexpr F16 to_f16(float value) {
  const std::uint32_t bits = detail::f32_to_bits(value);
  const std::uint32_t magnitude = bits & detail::kF32Magnitude;
  const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x1ffU);
  constexpr std::uint32_t kTwoTo16 = 0x47800000U;  // encodes to 0x7c00, infinity
  const std::uint32_t code = detail::Minifloat<10, 15>::encode(detail::smaller(magnitude, kTwoTo16));
  return {static_cast<std::uint16_t>(detail::select(detail::is_nan(magnitude), nan, code) | ((bits >> 16) & 0x8000U))};
}

/// Nearest e4m3, saturating: beyond +-448, infinity included, gives +-448. NaN gives 0x7f with the input's sign.
PINCH_HD constexpr E4m3 to_e4m3(float value) {
  const std::uint32_t bits = detail::f32_to_bits(value);
  const std::uint32_t magnitude = bits & detail::kF32Magnitude;
  const std::uint32_t code = detail::Minifloat<3, 7>::encode(detail::smaller(magnitude, detail::f32_to_bits(kE4m3Max)));
  return {static_cast<std::uint8_t>(detail::select(detail::is_nan(magnitude), 0x7fU, code) | ((bits >> 24) & 0x80U))};
}

/// Nearest e5m2, saturating: beyond +-57344, infinity included, gives +-57344. NaN gives 0x7e (quiet) with the input's
/// sign.
PINCH_HD constexpr E5m2 to_e5m2(float value) {
  const std::uint32_t bits = detail::f32_to_bits(value);
  const std::uint32_t magnitude = bits & detail::kF32Magnitude;
  const std::uint32_t code =
      detail::Minifloat<2, 15>::encode(detail::smaller(magnitude, detail::f32_to_bits(kE5m2Max)));
  return {static_cast<std::uint8_t>(detail::select(detail::is_nan(magnitude), 0x7eU, code) | ((bits >> 24) & 0x80U))};
}

/// Nearest e2m1, saturating: beyond +-6, infinity included, gives +-6. The format has no NaN: one gives +6, as the PTX
/// conversion cvt.rn.satfinite.e2m1x2.f32 does; refuse NaNs before.
PINCH_HD constexpr E2m1 to_e2m1(float value) {
  const std::uint32_t bits = detail::f32_to_bits(value);
  const std::uint32_t magnitude = bits & detail::kF32Magnitude;
  const std::uint32_t code = detail::Minifloat<1, 1>::encode(detail::smaller(magnitude, detail::f32_to_bits(kE2m1Max)));
  return {static_cast<std::uint8_t>(detail::select(detail::is_nan(magnitude), 7U, code | ((bits >> 28) & 8U)))};
}

/// Nearest power of two, ties to the even code, saturating to 2^-127 (zeros too) and 2^127 (+inf too). NaN and values
/// below zero have no code: 0xff.
PINCH_HD constexpr Ue8m0 to_ue8m0(float value) {
  const std::uint32_t bits = detail::f32_to_bits(value);
  const std::uint32_t magnitude = bits & detail::kF32Magnitude;
  if (magnitude > detail::kF32Infinity || (magnitude != bits && magnitude != 0)) return {0xff};
  constexpr std::uint32_t kTieAboveSmallest = 0x00600000U;  // 1.5 * 2^-127, where code 0 is the even one
  if (magnitude <= kTieAboveSmallest) return {0};
  if (magnitude < 0x00800000U) return {1};
  return {static_cast<std::uint8_t>(detail::smaller(detail::drop_bits(magnitude, 23), 254U))};
}

}  // namespace pinch
