// Shared memory of the wgmma kernel.
#pragma once

#include "kernels/gemm_bf16_fp4/sm90/traits.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

template <typename T>
struct alignas(1024) SharedStorage {
  // Activations [tile_m, 64] a slab, 128-byte rows, 128-byte swizzle.
  alignas(1024) uint8_t activations[T::kStages][T::kSlabs][T::kTileM * 128];             // [BLK_M, BLK_K, stage]
  alignas(1024) uint8_t staging[T::kConsumers][2][T::kStagedColumns * 128];              // [columns, 64] bf16, swizzled
  alignas(128) uint8_t codes[T::kStages][T::kRowTiles][T::kSlabs][T::kCodeTileBytes];    // [BLK_N, BLK_K, stage]
  alignas(128) uint8_t scales[T::kStages][T::kRowTiles][T::kSlabs][T::kScaleTileBytes];  // [BLK_N, BLK_K / g, stage]
  // Partial sums from the cluster's other CTAs, for this CTA's columns: [sender, warpgroup, quad, thread] of float4.
  alignas(128) uint8_t
      received[T::kClusterK - 1 == 0 ? 1 : T::kClusterK - 1][T::kClusterK == 1 ? 1 : T::kTileN * T::kOwnColumns * 4];
  alignas(8) uint64_t full[T::kStages];
  alignas(8) uint64_t empty[T::kStages];
  alignas(8) uint64_t sums_received;
};

}  // namespace pinch::gemm_bf16_fp4::sm90
