// AVX2 and FMA: FP32 operands, 6 rows x 16 columns in registers.
#include <immintrin.h>

#include "kernels/attention/cpu/avx2_softmax.h"

namespace pinch::attention {
namespace {

constexpr KernelShape kShape = shape_of(CpuIsa::kAvx2);
constexpr int kRows = kShape.rows, kHalf = 8;

PINCH_AVX2 void multiply(const void* a, std::int64_t lda, const void* panel, std::int64_t k, const float* decay,
                         float* c, std::int64_t ldc) {
  const auto* rows = static_cast<const float*>(a);
  const auto* b = static_cast<const float*>(panel);
  __m256 low[kRows] = {}, high[kRows] = {};
  if (decay != nullptr) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 d = _mm256_broadcast_ss(decay + r);
      low[r] = _mm256_mul_ps(_mm256_loadu_ps(c + r * ldc), d);
      high[r] = _mm256_mul_ps(_mm256_loadu_ps(c + r * ldc + kHalf), d);
    }
  }
  for (std::int64_t p = 0; p < k; ++p, b += kShape.columns) {
    const __m256 first = _mm256_loadu_ps(b), second = _mm256_loadu_ps(b + kHalf);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 x = _mm256_broadcast_ss(rows + r * lda + p);
      low[r] = _mm256_fmadd_ps(first, x, low[r]);
      high[r] = _mm256_fmadd_ps(second, x, high[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    _mm256_storeu_ps(c + r * ldc, low[r]);
    _mm256_storeu_ps(c + r * ldc + kHalf, high[r]);
  }
}

PINCH_AVX2 float scale_max(float* s, int visible, int count, float scale) {
  return scale_max_avx2(s, visible, count, scale);
}

template <int kDegree, PvType kPv>
PINCH_AVX2 float plain(float* s, int count, float m, void* p) {
  return plain_avx2<kDegree, kPv>(s, count, m, static_cast<float*>(p));
}
template <int kDegree>
PINCH_AVX2 float linear(float* s, int count, float m, void* p) {
  return linear_avx2<kDegree>(s, count, m, static_cast<float*>(p));
}
template <int kDegree>
PINCH_AVX2 float log(float* s, int count, float m, void* p) {
  return log_avx2<kDegree>(s, count, m, static_cast<float*>(p));
}

constexpr PvType kBf16 = PvType::kBf16, kFp8 = PvType::kFp8;
constexpr Probabilities kProbabilities[3][4] = {{plain<3, kBf16>, plain<3, kFp8>, linear<3>, log<3>},
                                                {plain<4, kBf16>, plain<4, kFp8>, linear<4>, log<4>},
                                                {plain<5, kBf16>, plain<5, kFp8>, linear<5>, log<5>}};

}  // namespace

Kernels avx2_kernels(const PForm& form) {
  return {kShape.element, kShape.rows, kShape.columns,
          kShape.k_step,  multiply,    {scale_max, choose(kProbabilities, form)}};
}

}  // namespace pinch::attention
