// The kernels that this build holds.
#pragma once

#include <cuda_runtime.h>

#include "kernels/attention/sm90/backend.h"

namespace pinch::attention::sm90 {

/// Defined in launch.cuh, instantiated one an object file: the kernel alone, everything it needs prepared. Errors:
/// cudaErrorInvalidValue where the driver takes no tensor map of the call's strides.
template <Kind kKind, Tile kTile>
cudaError_t launch_attention(const Tactic& tactic, const AttentionProblem& problem, const LaunchCall& call,
                             const DeviceFacts& device, cudaStream_t stream);

using LaunchAttention = cudaError_t (*)(const Tactic&, const AttentionProblem&, const LaunchCall&, const DeviceFacts&,
                                        cudaStream_t);

struct Instance {
  Kind kind;
  Tile tile;
  LaunchAttention launch;
};
/// In the order of the list.
std::span<const Instance> instances();

}  // namespace pinch::attention::sm90
