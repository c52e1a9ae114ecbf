// Q, K and V quantised into the workspace, as the kernel reads them.
#pragma once

#include <cuda_runtime.h>

#include "kernels/attention/sm90/plan.h"

namespace pinch::attention::sm90 {

/// Enqueues what the problem's types need; nothing for bf16. The codes and scales are those of numerics.h, to the bit.
cudaError_t prepare(const AttentionProblem& problem, const LaunchCall& call, const DeviceFacts& device,
                    cudaStream_t stream);

}  // namespace pinch::attention::sm90
