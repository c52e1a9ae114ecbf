// Shared memory of the attention kernel.
#pragma once

#include "kernels/attention/sm90/traits.cuh"

namespace pinch::attention::sm90 {

template <typename T>
struct alignas(1024) SharedStorage {
  alignas(1024) uint8_t q[T::kQStages][T::kConsumers][T::kQkSlabs][kWarpgroupRows * 128];  // [64, 64] a slab, swizzled
  alignas(1024) uint8_t k[T::kStages][T::kQkSlabs][T::kTileKv * 128];                      // [BLK_KV, 64] a slab, stage
  alignas(1024) uint8_t v[T::kStages][T::kVSlabs][T::kVRows * 128];  // [BLK_KV, 64], of fp8 [dim, 128 keys]
  // NVFP4: V as it comes from memory, a tile of keys: code words, then scales.
  alignas(128)
      uint8_t codes[T::kPv == PvType::kFp4 ? 2 : 1][T::kPv == PvType::kFp4 ? T::kCodeBytes + T::kCodeScaleBytes : 16];
  struct Barriers {
    alignas(8) uint64_t q_full[T::kQStages][T::kConsumers], q_empty[T::kQStages][T::kConsumers];
    alignas(8) uint64_t k_full[T::kStages], k_empty[T::kStages];
    alignas(8) uint64_t v_full[T::kStages], v_empty[T::kStages];
    alignas(8) uint64_t codes_full[2], codes_empty[2];
    int codes_end[2];                      // 1: no more tiles come
    int tile[T::kQStages][T::kConsumers];  // what q holds; -1: there is no more
  };
  Barriers barriers;
};

}  // namespace pinch::attention::sm90
