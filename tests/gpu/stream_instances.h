// The streaming-kernel instances that the development driver can launch, and how.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "kernels/gemm_bf16_fp4/sm90/stream/launch.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

struct StreamEntry {
  StreamInstance instance;
  cudaError_t (*launch)(const StreamTactic&, const StreamArgs&, const StreamDevice&, cudaStream_t);
};

/// Instances are compiled in parts, so that a parallel build is quick; each part is one translation unit a format.
inline constexpr int kStreamParts = 7;
template <Format F, int Part>
std::span<const StreamEntry> stream_entries();

}  // namespace pinch::gemm_bf16_fp4::sm90
