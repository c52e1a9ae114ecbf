// Is the output of attention right? Some rows of every head, the first and the last among them, are compared with FP64;
// all others must be finite and inside the hull of the values that they average.
//
// Tolerance, relative in the 2-norm, root mean square over the compared rows, and four times it in each: the largest
// step of each rounding, P's and V's to their type (bf16 2^-8, fp8 2^-4, fp4 1/5 and what underflows in a group, 1/4)
// and the output's; with fp8 scores 0.1 more, two roundings of 2^-4 in scores of deviation 1.
#pragma once

#include <cstdint>
#include <vector>

#include "pinch/attention.h"
#include "workbench/check/gemm_check.h"

namespace pinch::check {

class AttentionCheck {
 public:
  /// Computes the rows to compare with, about `multiply_adds` FP64 multiply-adds. `in`: arrays that are not of variable
  /// lengths; they must outlive the check. Errors: those of reference_attention.
  static Result<AttentionCheck> create(const AttentionProblem& problem, const AttentionInputs& in, double multiply_adds,
                                       std::uint64_t seed);

  /// `out`: [batch, heads, seq, dim] of the output type, dense. A row without a key must be zeros.
  [[nodiscard]] OutputVerdict compare(const void* out) const;

 private:
  AttentionCheck() = default;
  AttentionProblem problem_;
  double limit_ = 0;
  std::vector<std::int64_t> rows_;  ///< of all batches and heads, ascending
  std::vector<double> expected_;    ///< [rows, dim]
  std::vector<double> largest_;     ///< [batch * kv_heads, dim]: largest |v| of a column
};

}  // namespace pinch::check
