// Attention forward on the CPU: O = softmax(scale Q K^T + mask) V.
//
// Inputs are bf16; scores, the running softmax and all sums are FP32; P and V enter their product as
// AttentionProblem::pv says. The fp8 and fp4 types are exact emulations of their numerics (a CPU multiplies neither):
// they are slower than bf16 and serve the study of accuracy. Two runs of one tactic give the same bits, whatever the
// number of threads.
//
// Plan once for each problem, run as often as needed; a run allocates nothing. attention_forward() does both for
// callers who do not mind a workspace allocation a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "pinch/attention_problem.h"
#include "pinch/formats.h"
#include "pinch/result.h"

namespace pinch {

namespace detail {
struct AttentionPlanState;
struct AttentionAccess;
}  // namespace detail

/// [batch, heads, rows, dim] in memory of the caller's: dim is contiguous, the rest as strides in elements say. With
/// variable lengths the rows of all sequences follow one another and batch_stride is not read.
template <class T>
struct AttentionArray {
  T* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
};

struct AttentionInputs {
  AttentionArray<const Bf16> q;  ///< [batch, heads, seq, dim]
  AttentionArray<const Bf16> k;  ///< [batch, kv_heads, kv_seq, dim]
  AttentionArray<const Bf16> v;  ///< [batch, kv_heads, kv_seq, dim]
  float scale = 0;               ///< of the scores, usually 1 / sqrt(dim); finite
  /// Variable lengths: batch + 1 ascending offsets each, from 0, sequence b being rows [b] to [b + 1]; both or none. No
  /// length exceeds the problem's seq or kv_seq.
  std::span<const std::int32_t> cu_seqlens_q{};
  std::span<const std::int32_t> cu_seqlens_kv{};
  /// The last of the offsets, where a device holds them (pinch/attention_cuda.h); not read on the CPU.
  std::int64_t total_q = 0;
  std::int64_t total_kv = 0;
};

struct AttentionOutputs {
  AttentionArray<void> o;  ///< [batch, heads, seq, dim] bf16 or float as the problem says; must not overlap an input
  /// Natural log-sum-exp of the scaled scores of each row, [batch, heads, seq] with contiguous rows, or null. With
  /// variable lengths [heads, rows of all sequences].
  float* lse = nullptr;
  std::int64_t lse_batch_stride = 0;
  std::int64_t lse_head_stride = 0;
};

struct AttentionOptions {
  std::string tactic{};  ///< a name of the `cpu_attention` family; empty: the family's default
  int threads = 0;       ///< worker threads; 0: every CPU the process may use
};

/// A chosen tactic and everything computed from it for one problem. Copies are cheap.
class AttentionPlan {
 public:
  [[nodiscard]] std::string tactic() const;
  [[nodiscard]] int threads() const;  ///< workers a run uses
  [[nodiscard]] const AttentionProblem& problem() const;
  /// What run_attention needs: keys and values of one kv head, in the kernels' order, a worker or in all, and tiles.
  [[nodiscard]] std::size_t workspace_bytes() const;

 private:
  friend struct detail::AttentionAccess;
  explicit AttentionPlan(std::shared_ptr<const detail::AttentionPlanState> state);
  std::shared_ptr<const detail::AttentionPlanState> state_;
};

/// Alignment that run_attention's workspace must have, in bytes.
inline constexpr std::size_t kAttentionAlignment = 64;

/// Chooses how to compute the problem. Errors: what validate(problem) refuses; kInvalidArgument for threads below 0;
/// kNotFound for an unknown tactic, offering the nearest names; kIllegal, with the reason, for a tactic refused for
/// this problem; what cpu_choice() refuses.
Result<AttentionPlan> plan_attention(const AttentionProblem& problem, const AttentionOptions& options = {});

/// Runs a plan. A row that sees no key, or whose every score is minus infinity, gives zeros and a log-sum-exp of minus
/// infinity. qk = bf16: NaNs of Q or K, and scores of plus infinity, give NaNs in the rows that see them; a score of
/// minus infinity is a masked key. qk = fp8 has one scale for all keys of a kv head and one for the queries of a head:
/// a NaN or an infinity among them gives NaNs in every row of the head that sees a key. NaNs of V give NaNs in the
/// columns (fp8, fp4: in every row of the head). Bf16 subnormals count as zero on the avx512_bf16 and amx_bf16 paths.
/// Large and small V: sums of P V are FP32 and divided last, P at most 1. pv = bf16: O is a number where kv_seq times
/// the largest |V| stays below 2^128; a column whose sums overflow is infinite or NaN in the rows that see it, no other
/// is. pv = fp8 and fp4 multiply V by a scale of its own: O is a number for every finite V, unless it is within P's
/// rounding of the largest; heads whose largest |V| is below 2^-86 lose last bits of O.
///   workspace  workspace_bytes() bytes or more, aligned to kAttentionAlignment, used by one run at a time
/// Errors: kInvalidArgument for a null pointer, rows less than dim apart, an output whose elements overlap, an array
/// that spans 2^31 elements or more, a scale that is not finite, offsets of the wrong number or that do not ascend from
/// 0 or exceed the planned length, a workspace too small or misaligned. Nothing has been written then.
Result<void> run_attention(const AttentionPlan& plan, const AttentionInputs& in, const AttentionOutputs& out,
                           std::span<std::byte> workspace);

/// plan_attention and run_attention, with a workspace of its own. Errors: theirs; kOutOfMemory.
Result<void> attention_forward(const AttentionProblem& problem, const AttentionInputs& in, const AttentionOutputs& out,
                               const AttentionOptions& options = {});

/// The same in FP64 from the bf16 inputs, nothing quantised: what every kernel is checked against.
///   o    [batch, heads, seq, dim], dense; rows past a variable length are left alone
///   lse  [batch, heads, seq], dense, or null
/// Errors: those of run_attention that concern inputs; kInvalidArgument for a null o.
Result<void> reference_attention(const AttentionProblem& problem, const AttentionInputs& in, double* o,
                                 double* lse = nullptr);

}  // namespace pinch
