// Operands of a GEMM that is tuned or benchmarked: weights, other weights to make calls cold, activations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pinch/fp4.h"
#include "pinch/gemm.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch::ladder {

/// Weights [n, k] of random codes and scales, every one of them valid. Errors: a shape that no FP4 matrix has, or too
/// large for the memory that is free.
Result<Fp4Matrix> random_weights(Fp4Format format, std::int64_t n, std::int64_t k, std::uint64_t seed);

/// Standard normal values [count], rounded to bf16: never zeros, which some machines multiply faster.
std::vector<Bf16> random_activations(std::int64_t count, std::uint64_t seed);

/// The same scales with other codes, different for each `variant`: a copy would let the machine share pages or lines.
Fp4Matrix other_weights(const Fp4Matrix& weights, std::uint64_t variant);

/// Refuses a problem whose operands, outputs and `extra_bytes` would not fit into the memory that is free.
Result<void> check_memory(const GemmProblem& problem, std::size_t extra_bytes);

/// One matrix, prepared, and the set of others that cold calls walk through. Shared by the problems of every m.
class PreparedSet {
 public:
  /// `cold_bytes` of other weights, at least two of them; 0 for none. Errors: those of prepare_weights.
  static Result<PreparedSet> create(Fp4Matrix weights, std::size_t cold_bytes);

  [[nodiscard]] const Fp4Matrix& matrix() const { return weights_; }
  [[nodiscard]] Fp4View view() const { return weights_.view(); }
  [[nodiscard]] const PreparedWeights& warm() const { return prepared_.front(); }
  [[nodiscard]] std::span<const PreparedWeights> cold() const { return std::span(prepared_).subspan(1); }
  [[nodiscard]] std::size_t cold_bytes() const;

 private:
  explicit PreparedSet(Fp4Matrix weights) : weights_(std::move(weights)) {}
  Fp4Matrix weights_;
  std::vector<PreparedWeights> prepared_;
};

}  // namespace pinch::ladder
