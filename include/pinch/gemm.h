// mm_bf16_fp4: bf16 activations times 4-bit weights on the CPU.
//
//   out[m, n] = (a[m, k] @ dequant(b)[n, k]^T) * alpha
//
// Weights are dequantised exactly (E2M1 times its group's scale is exact in bf16), products accumulate in FP32 in an
// order that the tactic fixes, alpha multiplies the sum, and the result is rounded once to the output type. Two runs of
// one tactic give the same bits, whatever the number of threads.
//
// Prepare the weights once, plan once for each m, run as often as needed; a run allocates nothing. mm_bf16_fp4 does the
// last two steps for callers who do not mind a workspace allocation a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "pinch/formats.h"
#include "pinch/fp4.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch {

namespace detail {
struct PackedWeights;
struct GemmPlanState;
struct GemmAccess;
}  // namespace detail

/// Weights in the order that the kernels read them: a copy that the view need not outlive. Any number of threads may
/// run with one at a time.
class PreparedWeights {
 public:
  PreparedWeights(PreparedWeights&&) noexcept;
  PreparedWeights& operator=(PreparedWeights&&) noexcept;
  ~PreparedWeights();

  [[nodiscard]] std::int64_t n() const;
  [[nodiscard]] std::int64_t k() const;
  [[nodiscard]] Fp4Format format() const;
  [[nodiscard]] float alpha() const;
  [[nodiscard]] std::size_t bytes() const;  ///< memory held: 4.5 (NVFP4) or 4.25 (MXFP4) bits a weight, and padding

 private:
  friend struct detail::GemmAccess;
  explicit PreparedWeights(std::shared_ptr<const detail::PackedWeights> packed);
  std::shared_ptr<const detail::PackedWeights> packed_;
};

/// Copies weights into the kernels' order. Errors: whatever validate(view) refuses; kOutOfMemory.
Result<PreparedWeights> prepare_weights(const Fp4View& weights);

struct GemmOptions {
  std::string tactic{};  ///< a name of the `cpu` family; empty: the family's default
  int threads = 0;       ///< worker threads; 0: every CPU the process may use
  OutputType output = OutputType::kBf16;
};

/// A chosen tactic and everything computed from it for one m. Keeps the prepared weights alive. Copies are cheap.
class GemmPlan {
 public:
  [[nodiscard]] std::string tactic() const;
  [[nodiscard]] int threads() const;  ///< workers a run uses
  [[nodiscard]] const GemmProblem& problem() const;
  [[nodiscard]] std::size_t workspace_bytes()
      const;  ///< what run_gemm needs; at most 64 MiB for k up to 262144 and 32 workers

 private:
  friend struct detail::GemmAccess;
  explicit GemmPlan(std::shared_ptr<const detail::GemmPlanState> state);
  std::shared_ptr<const detail::GemmPlanState> state_;
};

/// Alignment that run_gemm's workspace must have, in bytes.
inline constexpr std::size_t kWorkspaceAlignment = 64;

/// Chooses how to compute m rows. Errors: kInvalidArgument for m below 1, sizes whose products overflow, threads below
/// 0; kNotFound for an unknown tactic, offering the nearest names; kIllegal, with the reason, for a tactic refused for
/// this problem; what cpu_choice() refuses.
Result<GemmPlan> plan_gemm(const PreparedWeights& weights, std::int64_t m, const GemmOptions& options = {});

/// Runs a plan.
///   a          [m, k] bf16, rows `lda` elements apart (lda >= k)
///   out        [m, n] bf16 or float as planned, rows `ldo` elements apart (ldo >= n); must not overlap `a`
///   workspace  workspace_bytes() bytes or more, aligned to kWorkspaceAlignment, used by one run at a time
/// Infinities and NaNs of `a` give the infinities and NaNs of their rows. Bf16 subnormals of `a` count as zero on the
/// avx512_bf16 and amx_bf16 paths, as their instructions define; so do MXFP4 weights below 2^-126 on panel paths.
/// Errors: kInvalidArgument for a null pointer, an lda or ldo too small, a workspace too small or misaligned.
Result<void> run_gemm(const GemmPlan& plan, const Bf16* a, std::int64_t lda, void* out, std::int64_t ldo,
                      std::span<std::byte> workspace);

/// plan_gemm and run_gemm, with a workspace of its own. Errors: theirs; kOutOfMemory.
Result<void> mm_bf16_fp4(const PreparedWeights& weights, const Bf16* a, std::int64_t lda, std::int64_t m, void* out,
                         std::int64_t ldo, const GemmOptions& options = {});

/// The higher of the PINCH_TRACE_LEVELs (pinch/trace.h, pinch/trace.cuh) that this library's CPU driver and CUDA
/// sources were compiled with: 0 unless somebody set it for the whole build. Times of a library with another are not to
/// be ranked.
int gemm_trace_level();

/// The same product in FP64: what every kernel is checked against. Plain loops over rows of the caller's own weights;
/// products and sums in double, in ascending k.
///   magnitude  optional [m, n], rows ldo apart: sum over k of |a * w| * |alpha|, from which error bounds derive
/// Errors: what validate(weights) refuses; kInvalidArgument for m below 1, null pointers, lda or ldo too small.
Result<void> reference_gemm(const Fp4View& weights, const Bf16* a, std::int64_t lda, std::int64_t m, double* out,
                            std::int64_t ldo, double* magnitude = nullptr);

}  // namespace pinch
