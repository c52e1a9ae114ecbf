// Storing a CTA's sums, times alpha: they lie transposed in the accumulators (rows of n, columns of m).
#pragma once

#include <cuda.h>

#include "kernels/common/cuda/ptx/bulk_copy.cuh"
#include "kernels/common/cuda/ptx/fence.cuh"
#include "kernels/common/cuda/ptx/mbarrier.cuh"
#include "kernels/common/cuda/ptx/named_barrier.cuh"
#include "kernels/common/cuda/ptx/stmatrix.cuh"
#include "kernels/gemm_bf16_fp4/sm90/params.cuh"
#include "kernels/gemm_bf16_fp4/sm90/smem.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// bf16: transposed through shared memory, stored by the copy engine, which leaves out what lies outside the output.
template <typename T>
__device__ __forceinline__ void store_staged(SharedStorage<T>& shared, const WgmmaParams& params,
                                             const CUtensorMap& out_map, int first_m, int first_n, int warpgroup,
                                             int first_column, const float (&sums)[T::kRowBlocks][T::kTileM / 2]) {
  constexpr int kColumns = T::kStagedColumns;
  const int thread = threadIdx.x % 128;
  const int warp = thread / 32;
  const int lane = thread % 32;
  const float alpha = params.alpha;
  // Lane l gives the address of row l % 8 of 8 x 8 matrix l / 8: matrices 1 and 3 are rows + 8 of n, matrices 2 and 3
  // columns + 8 of m.
  const int column = (lane / 16) * 8 + lane % 8;
  const uint32_t chunk = 2 * warp + (lane / 8) % 2;
  const uint32_t lane_offset = column * 128 + ((chunk ^ (lane % 8)) * 16);
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
    const int n = first_n + (warpgroup * T::kRowBlocks + r) * 64;
#pragma unroll
    for (int part = 0; part < T::kOwnColumns / kColumns; ++part) {
      const int buffer = (r * (T::kOwnColumns / kColumns) + part) % 2;
      const uint32_t staging = ptx::shared_address(shared.staging[warpgroup][buffer]);
      if (thread == 0) ptx::cp_async_bulk_wait_group_read<1>();
      ptx::bar_sync(1 + warpgroup, 128);
      const float* part_sums = &sums[r][(first_column + part * kColumns) / 2];
      if constexpr (kColumns == 8) {
        ptx::stmatrix_x2_trans(staging + (lane % 8) * 128 + ((2 * warp + (lane / 8) % 2) ^ (lane % 8)) * 16,
                               pack_bf16(part_sums[0] * alpha, part_sums[1] * alpha),
                               pack_bf16(part_sums[2] * alpha, part_sums[3] * alpha));
      } else {
#pragma unroll
        for (int i = 0; i < kColumns / 16; ++i)
          ptx::stmatrix_x4_trans(staging + lane_offset + i * 16 * 128,
                                 pack_bf16(part_sums[8 * i] * alpha, part_sums[8 * i + 1] * alpha),
                                 pack_bf16(part_sums[8 * i + 2] * alpha, part_sums[8 * i + 3] * alpha),
                                 pack_bf16(part_sums[8 * i + 4] * alpha, part_sums[8 * i + 5] * alpha),
                                 pack_bf16(part_sums[8 * i + 6] * alpha, part_sums[8 * i + 7] * alpha));
      }
      ptx::fence_proxy_async_shared();
      ptx::bar_sync(1 + warpgroup, 128);
      const int m = first_m + first_column + part * kColumns;
      if (thread == 0) {
        if (m < params.m && n < params.n) ptx::cp_async_bulk_tensor_2d_global_shared(&out_map, n, m, staging);
        ptx::cp_async_bulk_commit_group();  // even if empty: the waits above count groups
      }
    }
  }
}

// FP32: eight lanes write a whole 32-byte sector.
template <typename T>
__device__ __forceinline__ void store_direct(const WgmmaParams& params, int first_m, int first_n, int warpgroup,
                                             int first_column, const float (&sums)[T::kRowBlocks][T::kTileM / 2]) {
  const int thread = threadIdx.x % 128;
  const int row = 16 * (thread / 32) + (thread % 32) / 4;
  float* out = static_cast<float*>(params.out);
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
    const int n = first_n + (warpgroup * T::kRowBlocks + r) * 64 + row;
    int m = first_m + first_column + 2 * (thread % 4);
    float* to = out + static_cast<int64_t>(m) * params.out_stride + n;
#pragma unroll
    for (int i = first_column / 8; i < (first_column + T::kOwnColumns) / 8; ++i) {
      if (m < params.m && n < params.n) to[0] = sums[r][4 * i] * params.alpha;
      if (m < params.m && n + 8 < params.n) to[8] = sums[r][4 * i + 2] * params.alpha;
      if (m + 1 < params.m && n < params.n) to[params.out_stride] = sums[r][4 * i + 1] * params.alpha;
      if (m + 1 < params.m && n + 8 < params.n) to[params.out_stride + 8] = sums[r][4 * i + 3] * params.alpha;
      m += 8;
      to += 8 * static_cast<int64_t>(params.out_stride);
    }
  }
}

}  // namespace pinch::gemm_bf16_fp4::sm90
