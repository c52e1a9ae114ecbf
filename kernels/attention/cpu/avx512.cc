// AVX-512: 6 rows x 64 columns in registers, by FP32 multiply-adds (avx512) or by VDPBF16PS on pairs (avx512_bf16). The
// first is the faster where VDPBF16PS fills both ports for two cycles (Emerald Rapids: 187 GFLOP/s a core against 94),
// the second where it issues once a cycle (Zen 4: 117 against 235).
#include <immintrin.h>

#include "kernels/attention/cpu/avx512_softmax.h"

namespace pinch::attention {
namespace {

constexpr KernelShape kF32 = shape_of(CpuIsa::kAvx512), kPairs = shape_of(CpuIsa::kAvx512Bf16);
static_assert(kF32.rows == kPairs.rows && kF32.columns == kPairs.columns, "one register tile for both");
constexpr int kRows = kF32.rows, kVectors = kF32.columns / 16;

PINCH_AVX512 PINCH_INLINE void start(__m512 (&sum)[kRows][kVectors], const float* decay, const float* c,
                                     std::int64_t ldc) {
  if (decay == nullptr) return;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512 d = _mm512_set1_ps(decay[r]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_mul_ps(_mm512_loadu_ps(c + r * ldc + v * 16), d);
  }
}
PINCH_AVX512 PINCH_INLINE void finish(const __m512 (&sum)[kRows][kVectors], float* c, std::int64_t ldc) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + r * ldc + v * 16, sum[r][v]);
  }
}

PINCH_AVX512 void multiply_f32(const void* a, std::int64_t lda, const void* panel, std::int64_t k, const float* decay,
                               float* c, std::int64_t ldc) {
  const auto* rows = static_cast<const float*>(a);
  const auto* b = static_cast<const float*>(panel);
  __m512 sum[kRows][kVectors] = {};
  start(sum, decay, c, ldc);
  for (std::int64_t p = 0; p < k; ++p, b += kVectors * 16) {
    __m512 column[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) column[v] = _mm512_loadu_ps(b + v * 16);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 x = _mm512_set1_ps(rows[r * lda + p]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(x, column[v], sum[r][v]);
    }
  }
  finish(sum, c, ldc);
}

PINCH_AVX512_BF16 void multiply_pairs(const void* a, std::int64_t lda, const void* panel, std::int64_t k,
                                      const float* decay, float* c, std::int64_t ldc) {
  const auto* rows = static_cast<const Bf16*>(a);
  const auto* b = static_cast<const std::uint32_t*>(panel);
  __m512 sum[kRows][kVectors] = {};
  start(sum, decay, c, ldc);
  for (std::int64_t p = 0; p < k; p += 2, b += kVectors * 16) {
    __m512bh column[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) column[v] = (__m512bh)_mm512_loadu_si512(b + v * 16);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int pair;
      __builtin_memcpy(&pair, rows + r * lda + p, 4);
      const auto x = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, column[v]);
    }
  }
  finish(sum, c, ldc);
}

PINCH_AVX512 float scale_max(float* s, int visible, int count, float scale) {
  return scale_max_avx512(s, visible, count, scale);
}

template <int kDegree, PvType kPv, class T>
PINCH_AVX512 float plain(float* s, int count, float m, void* p) {
  return plain_avx512<kDegree, kPv>(s, count, m, static_cast<T*>(p));
}
template <int kDegree, class T>
PINCH_AVX512 float linear(float* s, int count, float m, void* p) {
  return linear_avx512<kDegree>(s, count, m, static_cast<T*>(p));
}
template <int kDegree, class T>
PINCH_AVX512 float log(float* s, int count, float m, void* p) {
  return log_avx512<kDegree>(s, count, m, static_cast<T*>(p));
}

constexpr PvType kBf16 = PvType::kBf16, kFp8 = PvType::kFp8;
template <class T>
constexpr Probabilities kProbabilities[3][4] = {{plain<3, kBf16, T>, plain<3, kFp8, T>, linear<3, T>, log<3, T>},
                                                {plain<4, kBf16, T>, plain<4, kFp8, T>, linear<4, T>, log<4, T>},
                                                {plain<5, kBf16, T>, plain<5, kFp8, T>, linear<5, T>, log<5, T>}};

}  // namespace

SoftmaxKernels avx512_pair_softmax(const PForm& form) {
  return {scale_max, choose(kProbabilities<Bf16>, form)};
}

Kernels avx512_kernels(const PForm& form) {
  return {kF32.element, kF32.rows,    kF32.columns,
          kF32.k_step,  multiply_f32, {scale_max, choose(kProbabilities<float>, form)}};
}

Kernels avx512_bf16_kernels(const PForm& form) {
  return {kPairs.element, kPairs.rows, kPairs.columns, kPairs.k_step, multiply_pairs, avx512_pair_softmax(form)};
}

}  // namespace pinch::attention
