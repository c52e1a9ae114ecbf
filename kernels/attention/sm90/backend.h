// The CUDA side of attention's front door, without a CUDA type. backend.cu is it; backend_absent.cc stands in for it in
// a build without CUDA. Memory of a device and checks of pointers and streams are those of the GEMM's backend.h.
#pragma once

#include <span>
#include <string_view>

#include "kernels/attention/sm90/plan.h"
#include "pinch/result.h"

namespace pinch::attention::sm90 {

/// Empty where the kernels are there; else why not.
std::string_view backend_absent();

/// What launches must know about a device of compute capability 9.0. Asked once a device and process, from any thread.
Result<const DeviceFacts*> device_facts(int ordinal);

/// A compiled kernel: one row of tiles.inc that this build holds.
struct BuiltKernel {
  Kind kind;
  Tile tile;
  const void* entry = nullptr;  // backend.cu's own
};
std::span<const BuiltKernel> built_kernels();
/// Null where the build left it out.
const BuiltKernel* find_kernel(const Kind& kind, const Tile& tile);

/// Parts of a call. With pv = bf16 there is nothing to prepare.
enum class Part : unsigned {
  kPrepare = 1,  // quantises V, and with qk = fp8 also Q and K, into the workspace; the scales too
  kAttend = 2,
  kBoth = 3,
};

/// Enqueues a call; no allocation, no waiting; may be captured into a graph. Errors: kIllegal for what illegal() of
/// plan.h refuses; kInvalidArgument for a misaligned pointer or stride, a scale not above 0 or a missing workspace;
/// kUnsupported for strides that a tensor map refuses; kDevice.
Result<void> launch(const BuiltKernel& kernel, const Tactic& tactic, const AttentionProblem& problem,
                    const LaunchCall& call, const DeviceFacts& facts, int device, void* stream,
                    Part part = Part::kBoth);

}  // namespace pinch::attention::sm90
