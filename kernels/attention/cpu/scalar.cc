// The portable path: plain loops, multiplies and adds rounded separately, as -ffp-contract=off has it.
#include "kernels/attention/cpu/softmax.h"

namespace pinch::attention {
namespace {

constexpr KernelShape kShape = shape_of(CpuIsa::kScalar);

void multiply(const void* a, std::int64_t lda, const void* panel, std::int64_t k, const float* decay, float* c,
              std::int64_t ldc) {
  const auto* rows = static_cast<const float*>(a);
  for (int r = 0; r < kShape.rows; ++r) {
    const auto* b = static_cast<const float*>(panel);
    float* out = c + r * ldc;
    float sum[kShape.columns];
    for (int j = 0; j < kShape.columns; ++j) sum[j] = decay != nullptr ? out[j] * decay[r] : 0.0F;
    for (std::int64_t p = 0; p < k; ++p, b += kShape.columns) {
      const float x = rows[r * lda + p];
      for (int j = 0; j < kShape.columns; ++j) sum[j] += x * b[j];
    }
    std::memcpy(out, sum, sizeof sum);
  }
}

float scale_max(float* s, int visible, int count, float scale) {
  return scale_max_row(s, visible, count, scale);
}

template <Exp2 kExp2, PvType kPv>
float plain(float* s, int count, float m, void* p) {
  return plain_row<kExp2, kPv>(s, count, m, static_cast<float*>(p));
}
template <Exp2 kExp2>
float linear(float* s, int count, float m, void* p) {
  return linear_row<kExp2>(s, count, m, static_cast<float*>(p));
}
template <Exp2 kExp2>
float log(float* s, int count, float m, void* p) {
  return log_row<kExp2>(s, count, m, static_cast<float*>(p));
}

constexpr PvType kBf16 = PvType::kBf16, kFp8 = PvType::kFp8;
constexpr Exp2 k3 = Exp2::kPoly3, k4 = Exp2::kPoly4, k5 = Exp2::kPoly5;
constexpr Probabilities kProbabilities[3][4] = {{plain<k3, kBf16>, plain<k3, kFp8>, linear<k3>, log<k3>},
                                                {plain<k4, kBf16>, plain<k4, kFp8>, linear<k4>, log<k4>},
                                                {plain<k5, kBf16>, plain<k5, kFp8>, linear<k5>, log<k5>}};

}  // namespace

Kernels scalar_kernels(const PForm& form) {
  return {kShape.element, kShape.rows, kShape.columns,
          kShape.k_step,  multiply,    {scale_max, choose(kProbabilities, form)}};
}

Kernels find_kernels(CpuIsa isa, const PForm& form) {
  switch (isa) {
    case CpuIsa::kScalar:
      return scalar_kernels(form);
#if defined(__x86_64__)
    case CpuIsa::kAvx2:
      return avx2_kernels(form);
    case CpuIsa::kAvx512:
      return avx512_kernels(form);
    case CpuIsa::kAvx512Bf16:
      return avx512_bf16_kernels(form);
    case CpuIsa::kAmxBf16:
      return amx_bf16_kernels(form);
#endif
    default:
      return {};
  }
}

}  // namespace pinch::attention
