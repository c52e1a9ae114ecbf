// Host side of the wgmma kernel: schedule, tensor maps, launch. No allocation; may be captured into a graph.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/gemm_bf16_fp4/sm90/kernel.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

// One call. Pointers are device pointers; strides count elements.
struct WgmmaArgs {
  const void* a;  // bf16 [m, a_stride]
  int a_stride;
  const uint8_t* codes;  // prepared.h
  const uint8_t* scales;
  float alpha;
  int acc_exponent;  // of the prepared header
  void* out;         // [m, out_stride]
  int out_stride;
  int m;
  int n;
  int k;
  void* workspace;  // workspace_bytes(...) of them, zeroed once before the first launch, then left alone between launches
};

inline Schedule make_schedule(const WgmmaTactic& tactic, int m, int n, int k, int sm_count) {
  const WgmmaTile& tile = tactic.tile;
  const auto ceil_div = [](int a, int b) { return (a + b - 1) / b; };
  Schedule s{};
  s.m_tiles = ceil_div(m, tile.tile_m);
  s.n_tiles = ceil_div(n, tile.tile_n * tile.cluster_n);
  s.k_iterations = ceil_div(k, tile.tile_k);
  s.raster_m = std::min(tactic.raster_m, s.m_tiles);
  const int capacity = sm_count / (tile.cluster_n * tile.cluster_k);  // clusters that run at once
  const int tiles = s.tiles();
  s.workers = std::min(tiles, capacity);
  if (tile.cluster_k > 1) {
    s.workers = tiles;  // a cluster ends with its tile: what it receives has one use
  } else if (tactic.split_k > 1 && s.k_iterations > 1) {
    s.split = std::min(tactic.split_k, s.k_iterations);
    s.shared_tiles = tiles;
    s.workers = tiles * s.split;
  } else if (tactic.split_k == kStreamK && tiles % capacity != 0) {
    // Whole waves stay whole but for the last, which is cut together with the tiles left over.
    const int waves = tiles / capacity;
    s.shared_tiles = tiles - std::max(0, waves - 1) * capacity;
    constexpr int kFewestColumns = 256;  // a worker's share of k: below, the reduction costs more than it saves
    const int64_t iterations = static_cast<int64_t>(s.shared_tiles) * s.k_iterations;
    s.workers = static_cast<int>(std::clamp<int64_t>(iterations * tile.tile_k / kFewestColumns, 1, capacity));
  }
  return s;
}

// Flags first, partial sums after; a fixed size, so that tactics may share a workspace.
inline constexpr size_t kFlagBytes = 65536;

inline size_t workspace_bytes(const WgmmaTactic& tactic, int m, int n, int k, int sm_count) {
  const Schedule s = make_schedule(tactic, m, n, k, sm_count);
  if (s.shared_tiles == 0) return 0;
  const size_t ctas = static_cast<size_t>(s.workers) * tactic.tile.cluster_n;
  return kFlagBytes + ctas * tactic.tile.tile_n * tactic.tile.tile_m * sizeof(float);
}

namespace detail {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

inline EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result{};
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result) !=
            cudaSuccess ||
        result != cudaDriverEntryPointSuccess)
      entry = nullptr;
    return reinterpret_cast<EncodeTiled>(entry);
  }();
  return function;
}

// A row-major bf16 matrix [rows, columns], boxes of 64 columns, 128-byte swizzle, zeros outside.
inline bool encode_bf16_map(CUtensorMap* map, const void* data, int rows, int columns, int stride, int box_rows) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return false;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t element_strides[2] = {1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data), sizes, strides, box, element_strides,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace detail

// T: WgmmaTraits of tactic.tile. Errors: cudaErrorInvalidValue for an illegal tactic, strides that are not multiples of
// 8, misaligned pointers, a missing workspace or more workers than flags.
template <typename T>
cudaError_t launch(const WgmmaTactic& tactic, const WgmmaArgs& args, int sm_count, cudaStream_t stream) {
  static_assert(sizeof(SharedStorage<T>) == shared_bytes(T::kTile, T::kScaleTileBytes));
  if (!illegal(tactic).empty() || tactic.tile != T::kTile) return cudaErrorInvalidValue;
  const Schedule schedule = make_schedule(tactic, args.m, args.n, args.k, sm_count);
  const auto misaligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 != 0; };
  if (args.a_stride % 8 != 0 || args.out_stride % 8 != 0 || args.n % 8 != 0 || args.k % 32 != 0 || misaligned(args.a) ||
      misaligned(args.out) || misaligned(args.codes) || misaligned(args.scales))
    return cudaErrorInvalidValue;
  const int ctas = schedule.workers * T::kClusterSize;
  if (schedule.shared_tiles > 0 &&
      (args.workspace == nullptr || static_cast<size_t>(ctas) * T::kConsumers * sizeof(uint32_t) > kFlagBytes))
    return cudaErrorInvalidValue;

  CUtensorMap activations_map;
  CUtensorMap out_map{};
  if (!detail::encode_bf16_map(&activations_map, args.a, args.m, args.k, args.a_stride, T::kTileM / T::kCluster))
    return cudaErrorInvalidValue;
  if (T::kStagedOutput &&
      !detail::encode_bf16_map(&out_map, args.out, args.m, args.n, args.out_stride, T::kStagedColumns))
    return cudaErrorInvalidValue;

  WgmmaParams params{};
  params.codes = args.codes;
  params.scales = args.scales;
  params.out = args.out;
  params.flags = static_cast<uint32_t*>(args.workspace);
  params.partials = reinterpret_cast<float*>(static_cast<uint8_t*>(args.workspace) + kFlagBytes);
  params.alpha = std::ldexp(args.alpha, args.acc_exponent);
  params.nvfp4_exponent = kNvfp4ScaleExponent;
  params.m = args.m;
  params.n = args.n;
  params.out_stride = args.out_stride;
  params.row_tiles = (args.n + 63) / 64;
  params.k_tiles = (args.k + 63) / 64;
  params.schedule = schedule;

  constexpr auto* kernel = &wgmma_kernel<T>;
  if (const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SharedStorage<T>));
      error != cudaSuccess)
    return error;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(ctas);
  config.blockDim = dim3(T::kThreads);
  config.dynamicSmemBytes = sizeof(SharedStorage<T>);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = T::kClusterSize;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = T::kClusterSize > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, activations_map, out_map, params);
}

}  // namespace pinch::gemm_bf16_fp4::sm90
