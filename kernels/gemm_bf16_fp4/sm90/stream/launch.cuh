// Launching the streaming kernel. No allocation, no synchronisation, capturable in a CUDA graph.
#pragma once

#include <algorithm>

#include "kernels/gemm_bf16_fp4/sm90/stream/kernel.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

/// Why this tactic cannot run this call, or nullptr.
inline const char* illegal(const StreamTactic& t, const StreamArgs& a, const StreamDevice& d) {
  if (const char* why = illegal(t, StreamProblem{a.m, a.n, a.k}, d)) return why;
  if (a.lda < a.k || a.lda % 8 != 0) return "lda is less than k or not a multiple of 8";
  if (a.ldo < a.n) return "ldo is less than n";
  if (reinterpret_cast<std::uintptr_t>(a.a) % 16 != 0) return "a is not 16-byte aligned";
  if (reinterpret_cast<std::uintptr_t>(a.codes) % 16 != 0 || reinterpret_cast<std::uintptr_t>(a.scales) % 16 != 0)
    return "prepared weights are not 16-byte aligned";
  return nullptr;
}

template <Format F, StreamInstance I>
cudaError_t launch(const StreamTactic& t, const StreamArgs& args, const StreamDevice& d, cudaStream_t stream) {
  if (illegal(t, args, d) != nullptr || instance_of(t) != I) return cudaErrorInvalidValue;
  const StreamSmem smem = stream_smem(t, args.m, args.k);
  const int level = t.split_k == 1 ? 0 : t.split_k == 2 ? 1 : t.split_k == 4 ? 2 : 3;
  const int teams = t.warps / t.k_warps;  // a block
  StreamParams p{};
  p.args = args;
  p.col_tiles = (args.k + kTileCols - 1) / kTileCols;
  p.row_groups = (args.n + kTileRows - 1) / kTileRows * kTileRows / (16 * t.row_tiles);
  p.split_log2 = level;
  p.balance = t.balance == 1;
  const int pieces = t.balance == 1 ? p.row_groups * p.col_tiles : p.row_groups;  // what is dealt to teams
  p.fetch = fetch_of(t, {args.m, args.n, args.k}, d);
  const int share = p.fetch == Fetch::kTwoBlocks ? 2 : 1;
  const int cluster_level = share == 2 ? 1 : level;
  const int useful = (pieces + teams - 1) / teams;
  const int resident = d.clusters[cluster_level] * share * t.blocks_per_sm;
  const int clusters = (std::min(resident, useful) + share - 1) / share * share;  // of split_k blocks
  p.step = clusters * teams;
  p.team_tiles = pieces / p.step;
  p.team_remainder = pieces % p.step;
  p.factor = args.acc_scale * args.alpha;
  p.part_log2 = smem.part_log2;
  p.x_stride_bytes = smem.x_stride_bytes;
  p.x_offset_bytes = smem.x_offset_bytes;
  p.reduce_offset_bytes = smem.reduce_offset_bytes;
  p.ring_offset_bytes = smem.ring_offset_bytes;
  p.nvfp4_exponent = kNvfp4ScaleExponent;

  auto* kernel = stream_kernel<StreamTraits<F, I>>;
  if (smem.total_bytes > 48 * 1024) {
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem.total_bytes);
    if (e != cudaSuccess) return e;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * t.split_k));
  config.blockDim = dim3(static_cast<unsigned>(t.warps * 32));
  config.dynamicSmemBytes = static_cast<std::size_t>(smem.total_bytes);
  config.stream = stream;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeClusterDimension;
  attribute[0].val.clusterDim = {1u << cluster_level, 1, 1};
  config.attrs = attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, p);
}

/// Fills in `d` for the current device, with instance I standing for all (one block an SM by shared memory).
template <Format F, StreamInstance I>
cudaError_t query_stream_device(StreamDevice* d) {
  int device = 0;
  cudaError_t e = cudaGetDevice(&device);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&d->sm_count, cudaDevAttrMultiProcessorCount, device);
  if (e == cudaSuccess)
    e = cudaDeviceGetAttribute(&d->smem_per_block_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (e == cudaSuccess)
    e = cudaDeviceGetAttribute(&d->smem_per_sm_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  if (e != cudaSuccess) return e;
  d->clusters[0] = d->sm_count;
  auto* kernel = stream_kernel<StreamTraits<F, I>>;
  e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, d->smem_per_block_bytes);
  for (int level = 1; level < 4 && e == cudaSuccess; ++level) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(d->sm_count << level));
    config.blockDim = dim3(256);
    config.dynamicSmemBytes = static_cast<std::size_t>(d->smem_per_block_bytes);
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim = {1u << level, 1, 1};
    config.attrs = attribute;
    config.numAttrs = 1;
    e = cudaOccupancyMaxActiveClusters(&d->clusters[level], kernel, &config);
  }
  return e;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
