// Host side of the wgmma kernel: schedule, tensor maps, launch. No allocation; may be captured into a graph.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

#include "kernels/common/cuda/tensor_map.h"
#include "kernels/gemm_bf16_fp4/sm90/kernel.cuh"
#include "kernels/gemm_bf16_fp4/sm90/plan.h"

namespace pinch::gemm_bf16_fp4::sm90 {

namespace detail {

// A row-major bf16 matrix [rows, columns], boxes of 64 columns, 128-byte swizzle, zeros outside.
inline bool encode_bf16_map(CUtensorMap* map, const void* data, int rows, int columns, int stride, int box_rows) {
  const cuda::EncodeTiled encode = cuda::encode_tiled();
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

// T: WgmmaTraits of tactic.tile. Errors: cudaErrorInvalidValue for a tactic that is illegal for the problem and device
// (ask illegal() first: it names the rule), strides that are too small or no multiples of 8, pointers not aligned to 16
// bytes, a missing workspace.
template <typename T>
cudaError_t launch(const WgmmaTactic& tactic, const WgmmaArgs& args, const WgmmaDevice& device, cudaStream_t stream) {
  static_assert(sizeof(SharedStorage<T>) == shared_bytes(T::kTile, T::kScaleTileBytes));
  const WgmmaProblem problem{args.m, args.n, args.k};
  if (!illegal(tactic, problem, device).empty() || tactic.tile != T::kTile) return cudaErrorInvalidValue;
  const Schedule schedule = make_schedule(tactic, problem, device);
  const auto misaligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 != 0; };
  if (args.a_stride < args.k || args.a_stride % 8 != 0 || args.out_stride < args.n || args.out_stride % 8 != 0 ||
      misaligned(args.a) || misaligned(args.out) || misaligned(args.codes) || misaligned(args.scales))
    return cudaErrorInvalidValue;
  if (schedule.shared_tiles > 0 && args.workspace == nullptr) return cudaErrorInvalidValue;

  CUtensorMap activations_map;
  CUtensorMap part_map;  // of the last m tile's boxes
  CUtensorMap out_map{};
  if (!detail::encode_bf16_map(&activations_map, args.a, args.m, args.k, args.a_stride, T::kRowsShare) ||
      !detail::encode_bf16_map(&part_map, args.a, args.m, args.k, args.a_stride, T::kPartRows))
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
  config.gridDim = dim3(static_cast<unsigned>(grid_ctas(T::kTile, schedule)));
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
  return cudaLaunchKernelEx(&config, kernel, activations_map, part_map, out_map, params);
}

}  // namespace pinch::gemm_bf16_fp4::sm90
