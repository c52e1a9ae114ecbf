// Is the output of mm_bf16_fp4 right? Every element is covered, at a cost far below that of an FP64 product.
//
// Some rows are compared element by element with the FP64 reference. For the others, columns are taken in blocks of 128
// with random signs s, and sum_j s_j out[i, j] is compared with a[i, :] . (sum_j s_j w[j, :]), computed in FP64: 1/128
// of the work (Freivalds 1977). An element that is off by more than a few percent of its block's typical size shows.
//
// Tolerance of an element: u |ref| + 8 sqrt(k) 2^-24 sum|a w| |alpha|, u = 2^-8 for bf16 and 2^-24 for FP32 outputs:
// one rounding to the output type, and the probabilistic bound of k FP32 roundings in any order (Higham and Mary 2019,
// SIAM J. Sci. Comput. 41(5), lambda = 8).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pinch/formats.h"
#include "pinch/fp4.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch::check {

struct OutputVerdict {
  bool right = false;
  double rel_l2 = 0;  ///< |out - ref| / |ref| in the 2-norm over the rows compared with the reference; may be NaN
  std::string why;    ///< what is wrong and where: the worst element or block
};

class GemmCheck {
 public:
  /// Computes what to compare with. `a`: [m, k], rows k apart. `reference_rows` of the m rows are compared element by
  /// element: the first, the last and random ones. Errors: those of reference_gemm.
  static Result<GemmCheck> create(const Fp4View& weights, std::span<const Bf16> a, std::int64_t m, OutputType output,
                                  std::int64_t reference_rows, std::uint64_t seed);

  /// `out`: [m, n] of the output type, rows n apart.
  [[nodiscard]] OutputVerdict compare(const void* out) const;

 private:
  GemmCheck() = default;
  [[nodiscard]] std::optional<std::string> compare_reference_rows(const void* out, double& rel_l2) const;
  [[nodiscard]] std::optional<std::string> compare_projections(const void* out) const;
  void project(const Fp4View& weights, std::span<const Bf16> a);

  OutputType output_ = OutputType::kBf16;
  std::int64_t m_ = 0;
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  std::vector<std::int64_t> exact_rows_;      ///< ascending
  std::vector<double> reference_;             ///< [exact_rows, n]
  std::vector<double> magnitude_;             ///< [exact_rows, n]
  std::vector<std::int64_t> projected_rows_;  ///< the others
  std::vector<double> sign_;                  ///< [n]
  std::vector<double> projection_;            ///< [projected_rows, blocks]
  std::vector<double> rounding_;              ///< [projected_rows, blocks]: deviation that FP32 sums may have
};

}  // namespace pinch::check
