// The softmax of one row on 512 bits: the arithmetic of numerics.h, lane for lane (tests/kernel/attention_test.cc holds
// the two to the same bits), for FP32 operands and for pairs of bf16.
#pragma once

#include <immintrin.h>

#include "kernels/attention/cpu/kernels.h"
#include "kernels/common/cpu/target.h"

namespace pinch::attention {

PINCH_AVX512 PINCH_INLINE __m512 all(float value) {
  return _mm512_set1_ps(value);
}

template <int kDegree>
PINCH_AVX512 PINCH_INLINE __m512 exp2_poly(__m512 x) {
  const __m512 low = _mm512_max_ps(all(-127.0F), x);  // the second where one is a NaN
  const __m512 rounder = all(0x1.8p23F + 127);
  const __m512 shifted = _mm512_add_round_ps(low, rounder, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(low, _mm512_sub_ps(shifted, rounder));
  __m512 p;
  if constexpr (kDegree == 3) {
    p = _mm512_fmadd_ps(all(0x1.3baaa6p-4F), f, all(0x1.d2378ap-3F));
    p = _mm512_fmadd_ps(p, f, all(0x1.63e658p-1F));
  } else if constexpr (kDegree == 4) {
    p = _mm512_fmadd_ps(all(0x1.b7f73p-7F), f, all(0x1.abf868p-5F));
    p = _mm512_fmadd_ps(p, f, all(0x1.ee245p-3F));
    p = _mm512_fmadd_ps(p, f, all(0x1.62d6c6p-1F));
  } else {
    p = _mm512_fmadd_ps(all(0x1.e974fap-10F), f, all(0x1.277856p-7F));
    p = _mm512_fmadd_ps(p, f, all(0x1.c91ce6p-5F));
    p = _mm512_fmadd_ps(p, f, all(0x1.ebdb56p-3F));
    p = _mm512_fmadd_ps(p, f, all(0x1.62e4bap-1F));
  }
  p = _mm512_fmadd_ps(p, f, all(1.0F));
  return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
}

/// x >= 0 with all but `kKept` bits of its fraction rounded away, ties to even.
template <int kKept>
PINCH_AVX512 PINCH_INLINE __m512 round_fraction(__m512 x) {
  constexpr int kDropped = 23 - kKept;
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, kDropped), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32((1 << (kDropped - 1)) - 1));
  return _mm512_castsi512_ps(_mm512_andnot_si512(_mm512_set1_epi32((1 << kDropped) - 1), sum));
}
/// The same below `smallest_normal`, where the format's steps stay equal: multiples of that of `aligner`.
template <int kKept>
PINCH_AVX512 PINCH_INLINE __m512 round_to_format(__m512 x, float smallest_normal, float aligner) {
  const __m512 a = all(aligner);
  const __mmask16 subnormal = _mm512_cmp_ps_mask(x, all(smallest_normal), _CMP_LT_OQ);
  return _mm512_mask_sub_ps(round_fraction<kKept>(x), subnormal, _mm512_add_ps(x, a), a);
}
/// to_f32(to_e4m3(x)) for x >= 0.
PINCH_AVX512 PINCH_INLINE __m512 e4m3_value(__m512 x) {
  return round_to_format<3>(_mm512_min_ps(all(kE4m3Max), x), 0x1p-6F, 0x1p14F);
}
/// to_f32(quantize_fp8(p)).
PINCH_AVX512 PINCH_INLINE __m512 fp8_value(__m512 p) {
  return e4m3_value(_mm512_mul_ps(p, all(0x1p8F)));
}
/// to_f32(to_e2m1(x)) for x >= 0; a NaN stays one.
PINCH_AVX512 PINCH_INLINE __m512 e2m1_value(__m512 x) {
  return round_to_format<1>(_mm512_min_ps(all(kE2m1Max), x), 1.0F, 0x1p22F);
}

/// Rounds to bf16 and stores 16 elements; `kExact`: the values have no bits to round.
template <bool kExact>
PINCH_AVX512 PINCH_INLINE void store_elements(__m512 value, float* to) {
  _mm512_storeu_ps(to, kExact ? value : round_fraction<7>(value));
}
template <bool kExact>
PINCH_AVX512 PINCH_INLINE void store_elements(__m512 value, Bf16* to) {
  const __m512 rounded = kExact ? value : round_fraction<7>(value);
  const __m256i words = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(rounded), 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
}

PINCH_AVX512 PINCH_INLINE float scale_max_avx512(float* s, int visible, int count, float scale) {
  const __m512 hidden = all(-__builtin_huge_valf()), factor = all(scale);
  __m512 top = hidden;
  int first = 0;
  for (; first + kStep <= visible; first += kStep) {
    const __m512 score = _mm512_mul_ps(_mm512_loadu_ps(s + first), factor);
    _mm512_storeu_ps(s + first, score);
    top = _mm512_max_ps(score, top);
  }
  for (; first < count; first += kStep) {
    const int left = visible - first;
    const auto seen = static_cast<__mmask16>(left > 0 ? (1U << left) - 1U : 0U);
    const __m512 score = _mm512_mask_mul_ps(hidden, seen, _mm512_loadu_ps(s + first), factor);
    _mm512_storeu_ps(s + first, score);
    top = _mm512_max_ps(score, top);
  }
  return _mm512_reduce_max_ps(top);
}

template <int kDegree, PvType kPv, class T>
PINCH_AVX512 PINCH_INLINE float plain_avx512(const float* s, int count, float m, T* p) {
  const __m512 minus = all(subtrahend(m));
  __m512 sum = _mm512_setzero_ps();
  for (int first = 0; first < count; first += kStep) {
    const __m512 e = exp2_poly<kDegree>(_mm512_sub_ps(_mm512_loadu_ps(s + first), minus));
    sum = _mm512_add_ps(sum, e);
    if constexpr (kPv == PvType::kBf16) {
      store_elements<false>(e, p + first);
    } else {
      store_elements<true>(fp8_value(e), p + first);
    }
  }
  return _mm512_reduce_add_ps(sum);
}

/// What a vector of group maxima becomes: scales as values, and what codes are made with.
struct Fp4Scales {
  __m512 scale, fold, unit;
};
PINCH_AVX512 PINCH_INLINE Fp4Scales linear_scales(__m512 top) {
  const __m512 held = _mm512_max_ps(top, all(0x1p-100F));
  return {e4m3_value(_mm512_mul_ps(held, all(kE4m3Max))), _mm512_div_ps(all(kE2m1Max), held), all(0.0F)};
}
template <int kDegree>
PINCH_AVX512 PINCH_INLINE Fp4Scales log_scales(__m512 top) {
  const __m512 held = _mm512_max_ps(top, all(kSmallestLog2));
  const __m512 scale = exp2_poly<kDegree>(_mm512_add_ps(held, all(kLog2E4m3Max)));
  return {e4m3_value(scale), _mm512_sub_ps(held, all(kLog2Six)),
          _mm512_mul_ps(scale, all(1.0F / (kE4m3Max * kE2m1Max)))};
}

inline constexpr int kBlock = kStep * kGroup;  // keys whose group maxima fill a vector

/// P first, then maxima, divisions (16 groups at once) and the scaling pass.
template <int kDegree, class T>
PINCH_AVX512 PINCH_INLINE float linear_avx512(float* s, int count, float m, T* p) {
  const __m512 minus = all(subtrahend(m));
  __m512 sum = _mm512_setzero_ps();
  alignas(64) float top[kStep] = {}, fold[kStep], scale[kStep];
  for (int block = 0; block < count; block += kBlock) {
    const int groups = (count - block < kBlock ? count - block : kBlock) / kGroup;
    for (int g = 0; g < groups; ++g) {
      float* at = s + block + g * kGroup;
      const __m512 e = exp2_poly<kDegree>(_mm512_sub_ps(_mm512_loadu_ps(at), minus));
      sum = _mm512_add_ps(sum, e);
      _mm512_storeu_ps(at, e);
      top[g] = _mm512_reduce_max_ps(e);
    }
    const Fp4Scales scales = linear_scales(_mm512_load_ps(top));
    _mm512_store_ps(fold, scales.fold);
    _mm512_store_ps(scale, scales.scale);
    for (int g = 0; g < groups; ++g) {
      const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(s + block + g * kGroup), all(fold[g]));
      store_elements<true>(_mm512_mul_ps(e2m1_value(scaled), all(scale[g])), p + block + g * kGroup);
    }
  }
  return _mm512_reduce_add_ps(sum);
}

/// Maxima first, one exponential for 16 groups, then P with the scale in its exponent, once through.
template <int kDegree, class T>
PINCH_AVX512 PINCH_INLINE float log_avx512(const float* s, int count, float m, T* p) {
  const __m512 minus = all(subtrahend(m));
  __m512 sum = _mm512_setzero_ps();
  alignas(64) float top[kStep] = {}, fold[kStep], scale[kStep], unit[kStep];
  for (int block = 0; block < count; block += kBlock) {
    const int groups = (count - block < kBlock ? count - block : kBlock) / kGroup;
    for (int g = 0; g < groups; ++g) top[g] = _mm512_reduce_max_ps(_mm512_loadu_ps(s + block + g * kGroup));
    const Fp4Scales scales = log_scales<kDegree>(_mm512_sub_ps(_mm512_load_ps(top), minus));
    _mm512_store_ps(fold, scales.fold);
    _mm512_store_ps(scale, scales.scale);
    _mm512_store_ps(unit, scales.unit);
    for (int g = 0; g < groups; ++g) {
      const __m512 x = _mm512_sub_ps(_mm512_loadu_ps(s + block + g * kGroup), minus);
      const __m512 e = exp2_poly<kDegree>(_mm512_sub_ps(x, all(fold[g])));
      sum = _mm512_fmadd_ps(e, all(unit[g]), sum);
      store_elements<true>(_mm512_mul_ps(e2m1_value(e), all(scale[g])), p + block + g * kGroup);
    }
  }
  return _mm512_reduce_add_ps(sum);
}

/// The softmax of pairs, which AMX uses too.
SoftmaxKernels avx512_pair_softmax(const PForm& form);

}  // namespace pinch::attention
