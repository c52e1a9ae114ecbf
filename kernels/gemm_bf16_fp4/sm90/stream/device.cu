#include "kernels/gemm_bf16_fp4/sm90/stream/device.h"

#include "kernels/gemm_bf16_fp4/sm90/stream/launch.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

cudaError_t query_stream_device(StreamDevice* device) {
  // Shared memory limits residence to one block an SM, so any instance stands for all.
  return query_stream_device<
      Format::kNvfp4, StreamInstance{.m_blocks = 1, .row_tiles = 2, .in_flight = 2, .k_warps = 8, .warps_per_sm = 16}>(
      device);
}

}  // namespace pinch::gemm_bf16_fp4::sm90
