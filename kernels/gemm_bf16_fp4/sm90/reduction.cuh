// Adding up the partial sums of a tile whose k is cut: between CTAs far apart through the workspace (stream-k,
// split-k), inside a cluster through distributed shared memory (cluster_k). Both add in a fixed order, so equal runs
// give equal bits.
#pragma once

#include "kernels/common/cuda/ptx/acquire_release.cuh"
#include "kernels/common/cuda/ptx/mbarrier.cuh"
#include "kernels/common/cuda/ptx/named_barrier.cuh"
#include "kernels/common/cuda/ptx/shared_access.cuh"
#include "kernels/gemm_bf16_fp4/sm90/params.cuh"
#include "kernels/gemm_bf16_fp4/sm90/smem.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

// Where a CTA keeps the partial sums of one warpgroup: [row block, quad of registers, thread] of float4.
template <typename T>
__device__ __forceinline__ float4* partials_of(const WgmmaParams& params, int cta, int warpgroup) {
  constexpr int kWarpgroupFloats = T::kTileN * T::kTileM / T::kConsumers;
  const int64_t first = (static_cast<int64_t>(cta) * T::kConsumers + warpgroup) * kWarpgroupFloats;
  return reinterpret_cast<float4*>(params.partials + first) + threadIdx.x % 128;
}

template <typename T>
__device__ __forceinline__ void store_partial(const WgmmaParams& params, int cta, int warpgroup,
                                              const float (&sums)[T::kRowBlocks][T::kTileM / 2]) {
  float4* to = partials_of<T>(params, cta, warpgroup);
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r)
#pragma unroll
    for (int i = 0; i < T::kTileM / 8; ++i)
      __stcg(to + (r * (T::kTileM / 8) + i) * 128,
             make_float4(sums[r][4 * i], sums[r][4 * i + 1], sums[r][4 * i + 2], sums[r][4 * i + 3]));
  ptx::bar_sync(1 + warpgroup, 128);
  if (threadIdx.x % 128 == 0) ptx::st_release_gpu(params.flags + cta * T::kConsumers + warpgroup, 1);
}

// Adds the partial sums of the tile's other workers, nearest first: a fixed order, so equal runs give equal bits.
template <typename T>
__device__ __forceinline__ void add_partials(const WgmmaParams& params, const Segment& segment, int worker,
                                             int cta_rank, int warpgroup, float (&sums)[T::kRowBlocks][T::kTileM / 2]) {
  const int tile_begin = segment.tile * params.schedule.k_iterations;
  int first = worker - 1;
  while (params.schedule.range_begin(first) > tile_begin) --first;
  for (int other = first + threadIdx.x % 128; other < worker; other += 128) {
    uint32_t* flag = params.flags + (other * T::kCluster + cta_rank) * T::kConsumers + warpgroup;
    while (ptx::ld_acquire_gpu(flag) == 0) {
    }
    *flag = 0;  // ready for the next launch
  }
  ptx::bar_sync(1 + warpgroup, 128);
#pragma unroll 1
  for (int other = worker - 1; other >= first; --other) {
    const float4* from = partials_of<T>(params, other * T::kCluster + cta_rank, warpgroup);
#pragma unroll
    for (int r = 0; r < T::kRowBlocks; ++r)
#pragma unroll
      for (int i = 0; i < T::kTileM / 8; ++i) {
        const float4 part = __ldcg(from + (r * (T::kTileM / 8) + i) * 128);
        sums[r][4 * i] += part.x;
        sums[r][4 * i + 1] += part.y;
        sums[r][4 * i + 2] += part.z;
        sums[r][4 * i + 3] += part.w;
      }
  }
}

// Sends the other CTAs their columns of this CTA's sums, and adds what they send: own sums first, then by sender.
template <typename T>
__device__ __forceinline__ void exchange_sums(SharedStorage<T>& shared, int cta_rank, int warpgroup,
                                              float (&sums)[T::kRowBlocks][T::kTileM / 2]) {
  constexpr int kQuads = T::kOwnColumns / 8;  // float4 a row block
  const int thread = threadIdx.x % 128;
  const uint32_t offset = (warpgroup * T::kRowBlocks * kQuads * 128 + thread) * 16;
  const uint32_t barrier = ptx::shared_address(&shared.sums_received);
#pragma unroll
  for (int other = 0; other < T::kClusterK; ++other) {
    if (other == cta_rank) continue;
    const uint32_t to =
        ptx::mapa(ptx::shared_address(shared.received[cta_rank < other ? cta_rank : cta_rank - 1]) + offset, other);
#pragma unroll
    for (int r = 0; r < T::kRowBlocks; ++r)
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const float* quad = &sums[r][4 * (other * kQuads + i)];
        ptx::st_async_v4_f32(to + (r * kQuads + i) * 2048, make_float4(quad[0], quad[1], quad[2], quad[3]),
                             ptx::mapa(barrier, other));
      }
  }
  while (!ptx::mbarrier_try_wait_parity(barrier, 0)) {
  }
#pragma unroll
  for (int own = 0; own < T::kClusterK; ++own) {
    if (own != cta_rank) continue;
#pragma unroll
    for (int sender = 0; sender < T::kClusterK - 1; ++sender) {
      const uint32_t from = ptx::shared_address(shared.received[sender]) + offset;
#pragma unroll
      for (int r = 0; r < T::kRowBlocks; ++r)
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          const float4 part = ptx::ld_shared_v4_f32(from + (r * kQuads + i) * 2048);
          float* quad = &sums[r][4 * (own * kQuads + i)];
          quad[0] += part.x;
          quad[1] += part.y;
          quad[2] += part.z;
          quad[3] += part.w;
        }
    }
  }
}

}  // namespace pinch::gemm_bf16_fp4::sm90
