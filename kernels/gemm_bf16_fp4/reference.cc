// The FP64 reference: what every kernel is checked against, so it shares nothing with them but the weights' decoder.
#include <fmt/core.h>

#include <cmath>
#include <vector>

#include "kernels/gemm_bf16_fp4/arguments.h"
#include "pinch/gemm.h"

namespace pinch {

Result<void> reference_gemm(const Fp4View& weights, const Bf16* a, std::int64_t lda, std::int64_t m, double* out,
                            std::int64_t ldo, double* magnitude) {
  PINCH_TRY(validate(weights));
  PINCH_TRY(detail::check_rows(m));
  PINCH_TRY(detail::check_operands(a, lda, weights.k, out, ldo, weights.n));
  const std::int64_t n = weights.n, k = weights.k;
#pragma omp parallel
  {
    std::vector<Bf16> exact(static_cast<std::size_t>(k));
    std::vector<double> row(static_cast<std::size_t>(k));
#pragma omp for schedule(static)
    for (std::int64_t j = 0; j < n; ++j) {
      dequantize_row(weights, j, exact);
      for (std::int64_t p = 0; p < k; ++p)
        row[static_cast<std::size_t>(p)] = to_f32(exact[static_cast<std::size_t>(p)]);
      for (std::int64_t i = 0; i < m; ++i) {
        double sum = 0, size = 0;
        for (std::int64_t p = 0; p < k; ++p) {
          const double product = static_cast<double>(to_f32(a[i * lda + p])) * row[static_cast<std::size_t>(p)];
          sum += product;
          size += std::fabs(product);
        }
        out[i * ldo + j] = sum * static_cast<double>(weights.alpha);
        if (magnitude != nullptr) magnitude[i * ldo + j] = size * std::fabs(static_cast<double>(weights.alpha));
      }
    }
  }
  return {};
}

}  // namespace pinch
