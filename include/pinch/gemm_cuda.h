// mm_bf16_fp4 on a CUDA device of compute capability 9.0 (Hopper): pinch/gemm.h with device pointers and a stream.
//
//   out[m, n] = (a[m, k] @ dequant(b)[n, k]^T) * alpha
//
// Weights are dequantised exactly, products accumulate in FP32 in an order that the tactic fixes, the result is rounded
// once to the output type. Two runs of one tactic give the same bits.
//
// Prepare the weights once, plan once for each m, run as often as needed; a run allocates nothing, waits for nothing
// and may be captured into a CUDA graph. n is a multiple of 8 and k one of 32. Every function may be called from any
// number of threads and for any number of devices; none changes the calling thread's current device. In a build without
// CUDA the functions that need a device return kUnsupported, saying so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "pinch/cuda.h"
#include "pinch/formats.h"
#include "pinch/fp4.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"
#include "pinch/tactics.h"

namespace pinch::cuda {

namespace detail {
struct HostImage;
struct DeviceImage;
struct GemmPlanState;
struct GemmAccess;
}  // namespace detail

/// Empty where this build has the kernels; else why not. It says nothing about this machine: see gemm_device().
std::string_view kernels_absent();

/// A device that the kernels of this build run on. Errors: kUnsupported where this build has none; those of
/// sm90_device().
Result<Device> gemm_device(int ordinal);

/// Version of the CUDA toolkit that built the kernels, "13.0"; empty where kernels_absent() is not.
std::string_view toolkit_version();

/// Weights in the kernels' order, in host memory: what a file holds. Needs neither CUDA nor a device. Copies are cheap.
class HostWeights {
 public:
  [[nodiscard]] std::int64_t n() const;
  [[nodiscard]] std::int64_t k() const;
  [[nodiscard]] Fp4Format format() const;
  [[nodiscard]] float alpha() const;
  /// Codes, then scales, as a device holds them; n and k padded to multiples of 64.
  [[nodiscard]] std::span<const std::byte> bytes() const;

  /// Writes a file that appears whole or not at all. Errors: kIo.
  [[nodiscard]] Result<void> save(const std::string& path) const;
  /// Errors: kNotFound, kIo; kCorrupt for another kind of file or a damaged one; kUnsupported for one of another
  /// version.
  static Result<HostWeights> load(const std::string& path);

 private:
  friend struct detail::GemmAccess;
  explicit HostWeights(std::shared_ptr<const detail::HostImage> image);
  std::shared_ptr<const detail::HostImage> image_;
};

/// Prepares weights that lie in host memory. The bytes are those of prepare_weights() on a device. Errors:
/// kInvalidArgument for a shape that no FP4 matrix has, null pointers, an alpha that is not finite; kIllegal where n is
/// not a multiple of 8 or k not one of 32; kCorrupt for a NaN or negative scale; kUnsupported for MXFP4 scales that
/// span more than 2^120.
Result<HostWeights> prepare_weights_on_host(const Fp4View& weights);

/// Weights in the kernels' order on one device, freed with the last plan that uses them. Any number of threads and
/// streams may run with them.
class PreparedWeights {
 public:
  PreparedWeights(PreparedWeights&&) noexcept;
  PreparedWeights& operator=(PreparedWeights&&) noexcept;
  ~PreparedWeights();

  [[nodiscard]] std::int64_t n() const;
  [[nodiscard]] std::int64_t k() const;
  [[nodiscard]] Fp4Format format() const;
  [[nodiscard]] float alpha() const;
  [[nodiscard]] int device() const;
  [[nodiscard]] std::size_t bytes() const;      ///< memory held: 4.5 (NVFP4) or 4.25 (MXFP4) bits a weight, and padding
  [[nodiscard]] const std::byte* data() const;  ///< of the device: HostWeights::bytes()

 private:
  friend struct detail::GemmAccess;
  explicit PreparedWeights(std::shared_ptr<const detail::DeviceImage> image);
  std::shared_ptr<const detail::DeviceImage> image_;
};

/// Prepares weights whose pointers are the device's: copies them into the kernels' order, which the view need not
/// outlive. Work goes to `stream`, which this waits for. Errors: those of prepare_weights_on_host; those of
/// sm90_device; kOutOfMemory; kInvalidArgument for pointers of other memory.
Result<PreparedWeights> prepare_weights(const Fp4View& weights, int device, Stream stream = nullptr);

/// Copies prepared weights to a device, and back. Errors: those of gemm_device; kOutOfMemory.
Result<PreparedWeights> to_device(const HostWeights& weights, int device);
Result<HostWeights> to_host(const PreparedWeights& weights);

/// The `sm90` family less the tactics whose kernels this build left out (PINCH_TACTICS), which are illegal here: the
/// default is chosen among what is there.
const TacticFamily& built_tactics();

struct GemmOptions {
  std::string tactic{};  ///< a name of the `sm90` family; empty: the family's default
  OutputType output = OutputType::kBf16;
};

/// A chosen tactic and everything computed from it for one m, on the weights' device. Keeps the prepared weights alive.
/// Copies are cheap.
class GemmPlan {
 public:
  [[nodiscard]] std::string tactic() const;
  [[nodiscard]] int device() const;
  [[nodiscard]] const GemmProblem& problem() const;
  [[nodiscard]] std::size_t workspace_bytes() const;  ///< what run_gemm needs; may be 0

 private:
  friend struct detail::GemmAccess;
  explicit GemmPlan(std::shared_ptr<const detail::GemmPlanState> state);
  std::shared_ptr<const detail::GemmPlanState> state_;
};

/// Chooses how to compute m rows. Errors: kInvalidArgument for m below 1; kNotFound for an unknown tactic, offering the
/// nearest names; kIllegal, with the reason, for a tactic of built_tactics() refused for this problem.
Result<GemmPlan> plan_gemm(const PreparedWeights& weights, std::int64_t m, const GemmOptions& options = {});

/// Alignment in bytes that run_gemm's pointers must have; lda and ldo are multiples of kStrideMultiple elements.
inline constexpr std::size_t kPointerAlignment = 16;
inline constexpr std::int64_t kStrideMultiple = 8;

/// Enqueues the one write that a workspace needs before its first run, and again after a run that failed. From then on
/// it serves any plan that it is large enough for, one run at a time: each leaves it as it found it. Errors:
/// kInvalidArgument for a workspace that is null or misaligned; kDevice.
Result<void> clear_workspace(std::span<std::byte> workspace, int device, Stream stream = nullptr);

/// Enqueues a plan's run. Pointers are the device's.
///   a          [m, k] bf16, rows `lda` elements apart (lda >= k)
///   out        [m, n] bf16 or float as planned, rows `ldo` elements apart (ldo >= n); must not overlap `a`
///   workspace  workspace_bytes() bytes or more, cleared once, used by one run at a time
/// Infinities and NaNs of `a` give the infinities and NaNs of their rows. Errors: kInvalidArgument for a null or
/// misaligned pointer, one of host memory or of another device, an lda or ldo too small or no multiple of
/// kStrideMultiple, a workspace too small, a stream of another device (but while it is captured); kDevice for what CUDA
/// refuses.
Result<void> run_gemm(const GemmPlan& plan, const Bf16* a, std::int64_t lda, void* out, std::int64_t ldo,
                      std::span<std::byte> workspace, Stream stream = nullptr);

}  // namespace pinch::cuda
