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

std::span<const StreamEntry> stream_entries_nvfp4();
std::span<const StreamEntry> stream_entries_mxfp4();
cudaError_t query_device(StreamDevice* d);

}  // namespace pinch::gemm_bf16_fp4::sm90
