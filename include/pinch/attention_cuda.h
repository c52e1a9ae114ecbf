// Attention forward on a CUDA device of compute capability 9.0 (Hopper): pinch/attention.h with device pointers and a
// stream.
//
// Q K^T in bf16 or E4M3, scores and the running softmax in FP32, P and V in their product as AttentionProblem::pv says:
// bf16; E4M3 (P * 2^8, V with a scale per batch and kv head); NVFP4, an emulation here, for these devices multiply no
// FP4: P and V are rounded to it exactly and multiplied in bf16. Two runs of one tactic give the same bits.
//
// Plan once for each problem, run as often as needed; a run allocates nothing, waits for nothing and may be captured
// into a CUDA graph. Every function may be called from any number of threads and for any number of devices; none
// changes the calling thread's current device. In a build without CUDA they return kUnsupported, saying so.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "pinch/attention.h"
#include "pinch/cuda.h"
#include "pinch/gemm_cuda.h"
#include "pinch/result.h"
#include "pinch/tactics.h"

namespace pinch::cuda {

namespace detail {
struct AttentionPlanState;
struct AttentionAccess;
}  // namespace detail

/// The `sm90_attention` family less the tactics whose kernels this build left out (PINCH_TACTICS), which are illegal
/// here: the default is chosen among what is there.
const AttentionTacticFamily& built_attention_tactics();

struct AttentionOptions {
  std::string tactic{};  ///< a name of the `sm90_attention` family; empty: the family's default
};

/// A chosen tactic and everything computed from it for one problem on one device. Copies are cheap.
class AttentionPlan {
 public:
  [[nodiscard]] std::string tactic() const;
  [[nodiscard]] int device() const;
  [[nodiscard]] const AttentionProblem& problem() const;
  [[nodiscard]] std::size_t workspace_bytes() const;  ///< what run_attention needs; may be 0

 private:
  friend struct detail::AttentionAccess;
  explicit AttentionPlan(std::shared_ptr<const detail::AttentionPlanState> state);
  std::shared_ptr<const detail::AttentionPlanState> state_;
};

/// Chooses how to compute the problem. Errors: what validate(problem) refuses; those of gemm_device(device); kNotFound
/// for an unknown tactic, offering the nearest names; kIllegal, with the reason, for a tactic of
/// built_attention_tactics() refused for this problem, and where none is legal.
Result<AttentionPlan> plan_attention(const AttentionProblem& problem, int device, const AttentionOptions& options = {});

/// Enqueues a plan's run. Arrays, offsets and workspace are the device's memory; pointers are aligned to
/// kPointerAlignment bytes, strides of q, k, v and o are multiples of kStrideMultiple elements.
///   in.scale         above 0
///   in.cu_seqlens_*  their number is checked here, with total_q and total_kv; what they hold, which the device reads
///                    when the run comes to it, is trusted: offsets that descend or end elsewhere, or a sequence
///                    longer than planned, make it read and write beyond the arrays
///   workspace        workspace_bytes() bytes or more, cleared once by clear_workspace(), used by one run at a time; it
///                    serves every plan of attention that it is large enough for. After a run that failed, or a
///                    product's, clear it again
/// A row that sees no key, or whose every score is minus infinity, gives zeros and a log-sum-exp of minus infinity; a
/// score of minus infinity is a masked key. NaNs of Q or K, and scores of plus infinity, give NaNs in the rows that see
/// them (qk = fp8: in every row of the head that sees a key); NaNs of V, in the columns (fp8, fp4: in every row of the
/// head). Large V: as on the CPU; a tactic's threshold t lets P reach 2^t. Errors: kInvalidArgument for a null or
/// misaligned pointer, one of host memory or of another device, a stride that is no multiple, rows less than dim apart,
/// an output whose elements overlap, an array that spans 2^31 elements or more, a scale that is not above 0 and finite,
/// offsets of the wrong number, totals that cannot be, a workspace too small, a stream of another device (but while it
/// is captured); kDevice for what CUDA refuses. Nothing has been enqueued then.
Result<void> run_attention(const AttentionPlan& plan, const AttentionInputs& in, const AttentionOutputs& out,
                           std::span<std::byte> workspace, Stream stream = nullptr);

}  // namespace pinch::cuda
