// The softmax of one row on 256 bits, for FP32 operands: the arithmetic of numerics.h, lane for lane
// (tests/kernel/attention_test.cc holds the two to the same bits). The compiler leaves softmax.h's loops half scalar.
#pragma once

#include <immintrin.h>

#include "kernels/attention/cpu/kernels.h"
#include "kernels/common/cpu/target.h"

namespace pinch::attention {

inline constexpr int kHalfStep = kStep / 2;  // lanes of a vector

PINCH_AVX2 PINCH_INLINE __m256 all8(float value) {
  return _mm256_set1_ps(value);
}

template <int kDegree>
PINCH_AVX2 PINCH_INLINE __m256 exp2_poly8(__m256 x) {
  const __m256 low = _mm256_max_ps(all8(-127.0F), x);  // the second where one is a NaN
  const __m256 whole = _mm256_floor_ps(low);
  const __m256 shifted = _mm256_add_ps(whole, all8(0x1.8p23F + 127));
  const __m256 f = _mm256_sub_ps(low, whole);
  __m256 p;
  if constexpr (kDegree == 3) {
    p = _mm256_fmadd_ps(all8(0x1.3baaa6p-4F), f, all8(0x1.d2378ap-3F));
    p = _mm256_fmadd_ps(p, f, all8(0x1.63e658p-1F));
  } else if constexpr (kDegree == 4) {
    p = _mm256_fmadd_ps(all8(0x1.b7f73p-7F), f, all8(0x1.abf868p-5F));
    p = _mm256_fmadd_ps(p, f, all8(0x1.ee245p-3F));
    p = _mm256_fmadd_ps(p, f, all8(0x1.62d6c6p-1F));
  } else {
    p = _mm256_fmadd_ps(all8(0x1.e974fap-10F), f, all8(0x1.277856p-7F));
    p = _mm256_fmadd_ps(p, f, all8(0x1.c91ce6p-5F));
    p = _mm256_fmadd_ps(p, f, all8(0x1.ebdb56p-3F));
    p = _mm256_fmadd_ps(p, f, all8(0x1.62e4bap-1F));
  }
  p = _mm256_fmadd_ps(p, f, all8(1.0F));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
}

/// x >= 0 with all but `kKept` bits of its fraction rounded away, ties to even.
template <int kKept>
PINCH_AVX2 PINCH_INLINE __m256 round_fraction8(__m256 x) {
  constexpr int kDropped = 23 - kKept;
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, kDropped), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32((1 << (kDropped - 1)) - 1));
  return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_set1_epi32((1 << kDropped) - 1), sum));
}
/// The same below `smallest_normal`, where the format's steps stay equal: multiples of that of `aligner`.
template <int kKept>
PINCH_AVX2 PINCH_INLINE __m256 round_to_format8(__m256 x, float smallest_normal, float aligner) {
  const __m256 a = all8(aligner), subnormal = _mm256_cmp_ps(x, all8(smallest_normal), _CMP_LT_OQ);
  return _mm256_blendv_ps(round_fraction8<kKept>(x), _mm256_sub_ps(_mm256_add_ps(x, a), a), subnormal);
}
/// to_f32(quantize_fp8(p)).
PINCH_AVX2 PINCH_INLINE __m256 fp8_value8(__m256 p) {
  return round_to_format8<3>(_mm256_min_ps(all8(kE4m3Max), _mm256_mul_ps(p, all8(0x1p8F))), 0x1p-6F, 0x1p14F);
}
/// to_f32(to_e2m1(x)) for x >= 0; a NaN stays one.
PINCH_AVX2 PINCH_INLINE __m256 e2m1_value8(__m256 x) {
  return round_to_format8<1>(_mm256_min_ps(all8(kE2m1Max), x), 1.0F, 0x1p22F);
}

PINCH_AVX2 PINCH_INLINE float largest_of(__m256 low, __m256 high) {
  const __m256 eight = _mm256_max_ps(low, high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
PINCH_AVX2 PINCH_INLINE float sum_of(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

PINCH_AVX2 PINCH_INLINE float scale_max_avx2(float* s, int visible, int count, float scale) {
  const __m256 hidden = all8(-__builtin_huge_valf()), factor = all8(scale);
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256 top[2] = {hidden, hidden};
  int first = 0;
  for (; first + kStep <= visible; first += kStep) {
    for (int half = 0; half < 2; ++half) {
      float* at = s + first + half * kHalfStep;
      const __m256 score = _mm256_mul_ps(_mm256_loadu_ps(at), factor);
      _mm256_storeu_ps(at, score);
      top[half] = _mm256_max_ps(score, top[half]);
    }
  }
  for (; first < count; first += kStep) {
    for (int half = 0; half < 2; ++half) {
      float* at = s + first + half * kHalfStep;
      const __m256i left = _mm256_set1_epi32(visible - first - half * kHalfStep);
      const __m256 seen = _mm256_castsi256_ps(_mm256_cmpgt_epi32(left, lanes));
      const __m256 score = _mm256_blendv_ps(hidden, _mm256_mul_ps(_mm256_loadu_ps(at), factor), seen);
      _mm256_storeu_ps(at, score);
      top[half] = _mm256_max_ps(score, top[half]);
    }
  }
  return largest_of(top[0], top[1]);
}

template <int kDegree, PvType kPv>
PINCH_AVX2 PINCH_INLINE float plain_avx2(const float* s, int count, float m, float* p) {
  const __m256 minus = all8(subtrahend(m));
  __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int first = 0; first < count; first += kStep) {
    for (int half = 0; half < 2; ++half) {
      const int at = first + half * kHalfStep;
      const __m256 e = exp2_poly8<kDegree>(_mm256_sub_ps(_mm256_loadu_ps(s + at), minus));
      sum[half] = _mm256_add_ps(sum[half], e);
      _mm256_storeu_ps(p + at, kPv == PvType::kBf16 ? round_fraction8<7>(e) : fp8_value8(e));
    }
  }
  return sum_of(sum[0], sum[1]);
}

/// P first, then each group's maximum, its division and the scaling pass.
template <int kDegree>
PINCH_AVX2 PINCH_INLINE float linear_avx2(const float* s, int count, float m, float* p) {
  const __m256 minus = all8(subtrahend(m));
  __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int first = 0; first < count; first += kGroup) {
    __m256 e[2];
    for (int half = 0; half < 2; ++half) {
      e[half] = exp2_poly8<kDegree>(_mm256_sub_ps(_mm256_loadu_ps(s + first + half * kHalfStep), minus));
      sum[half] = _mm256_add_ps(sum[half], e[half]);
    }
    const Fp4Scale group = fp4_linear_scale(largest_of(e[0], e[1]));
    const __m256 fold = all8(group.fold), scale = all8(to_f32(group.scale));
    for (int half = 0; half < 2; ++half) {
      const __m256 code = e2m1_value8(_mm256_mul_ps(e[half], fold));
      _mm256_storeu_ps(p + first + half * kHalfStep, _mm256_mul_ps(code, scale));
    }
  }
  return sum_of(sum[0], sum[1]);
}

/// The group's maximum first, one exponential for it, then P with the scale in its exponent.
template <int kDegree>
PINCH_AVX2 PINCH_INLINE float log_avx2(const float* s, int count, float m, float* p) {
  constexpr Exp2 kExp2 = kDegree == 3 ? Exp2::kPoly3 : kDegree == 4 ? Exp2::kPoly4 : Exp2::kPoly5;
  const __m256 minus = all8(subtrahend(m));
  __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int first = 0; first < count; first += kGroup) {
    const __m256 low = _mm256_loadu_ps(s + first), high = _mm256_loadu_ps(s + first + kHalfStep);
    const Fp4LogScale group = fp4_log_scale<kExp2>(largest_of(low, high) - subtrahend(m));
    const __m256 fold = all8(group.fold), unit = all8(group.unit), scale = all8(to_f32(group.scale));
    for (int half = 0; half < 2; ++half) {
      const __m256 x = _mm256_sub_ps(half == 0 ? low : high, minus);
      const __m256 e = exp2_poly8<kDegree>(_mm256_sub_ps(x, fold));
      sum[half] = _mm256_fmadd_ps(e, unit, sum[half]);
      _mm256_storeu_ps(p + first + half * kHalfStep, _mm256_mul_ps(e2m1_value8(e), scale));
    }
  }
  return sum_of(sum[0], sum[1]);
}

}  // namespace pinch::attention
