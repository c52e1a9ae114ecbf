// What the streaming kernel's launches must know about a device.
#pragma once

#include <cuda_runtime.h>

namespace pinch::gemm_bf16_fp4::sm90 {

struct StreamDevice;  // plan.h

// Fills in `device` for the current CUDA device. Query once and keep.
cudaError_t query_stream_device(StreamDevice* device);

}  // namespace pinch::gemm_bf16_fp4::sm90
