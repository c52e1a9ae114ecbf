// The producer: one thread that loads queries, keys and values, tile after tile.
#pragma once

#include <cuda.h>

#include "kernels/attention/sm90/barriers.cuh"
#include "kernels/attention/sm90/params.cuh"
#include "kernels/attention/sm90/smem.cuh"
#include "kernels/attention/sm90/traced/names.h"
#include "kernels/common/cuda/ptx/bulk_copy.cuh"

namespace pinch::attention::sm90 {

// The first index that nobody has taken; tiles() or more at the end.
__device__ __forceinline__ int next_index(const Params& params, int index) {
  return params.dynamic ? static_cast<int>(gridDim.x + atomicAdd(params.counters, 1u))
                        : index + static_cast<int>(gridDim.x);
}

// One thread.
template <typename T>
__device__ __forceinline__ void producer(SharedStorage<T>& shared, const Params& params, const CUtensorMap& q_map,
                                         const CUtensorMap& k_map, const CUtensorMap& v_map) {
  PINCH_TRACE_SCOPE();
  constexpr bool kPreparedQk = T::kQk == QkType::kFp8;
  constexpr int kSlabColumns = kPreparedQk ? 128 : 64;
  auto& barriers = shared.barriers;
  RingPosition<T::kStages> k, v;
  RingPosition<T::kQStages> q;
  ptx::prefetch_tensormap(&q_map);
  ptx::prefetch_tensormap(&k_map);
  ptx::prefetch_tensormap(&v_map);

  const auto wait_empty = [&](const uint64_t& barrier, uint32_t parity) {
    PINCH_TRACE_WAIT(TraceWait::kEmpty);
    wait_for(barrier, parity ^ 1);
  };
  const auto send_tile = [&](int index, const Block* block) {
    for (int w = 0; w < T::kConsumers; ++w) {
      wait_empty(barriers.q_empty[q.stage][w], q.parity);
      barriers.tile[q.stage][w] = index;
      const uint32_t full = ptx::shared_address(&barriers.q_full[q.stage][w]);
      if (block == nullptr || block->key_tiles == 0) {
        ptx::mbarrier_arrive(full);
        continue;
      }
      ptx::mbarrier_arrive_expect_tx(full, sizeof(shared.q[0][0]));
      const int row = block->first_query + w * kWarpgroupRows + (kPreparedQk ? 0 : block->q_row);
      const int batch = !kPreparedQk && params.cu_seqlens_q != nullptr ? 0 : block->batch;
#pragma unroll
      for (int slab = 0; slab < T::kQkSlabs; ++slab)
        ptx::cp_async_bulk_tensor_4d_shared_global(ptx::shared_address(shared.q[q.stage][w][slab]), &q_map,
                                                   slab * kSlabColumns, row, block->head, batch, full);
    }
    q.advance();
  };
  const auto load_keys = [&](const Block& block, int tile) {
    wait_empty(barriers.k_empty[k.stage], k.parity);
    const uint32_t full = ptx::shared_address(&barriers.k_full[k.stage]);
    ptx::mbarrier_arrive_expect_tx(full, sizeof(shared.k[0]));
    const int row = tile * T::kTileKv + (kPreparedQk ? 0 : block.kv_row);
    const int batch = !kPreparedQk && params.cu_seqlens_q != nullptr ? 0 : block.batch;
#pragma unroll
    for (int slab = 0; slab < T::kQkSlabs; ++slab)
      ptx::cp_async_bulk_tensor_4d_shared_global(ptx::shared_address(shared.k[k.stage][slab]), &k_map,
                                                 slab * kSlabColumns, row, block.kv_head, batch, full);
    k.advance();
  };
  RingPosition<2> codes;
  const auto load_codes = [&](const Block& block, int tile) {
    {
      PINCH_TRACE_WAIT(TraceWait::kCodesEmpty);
      wait_for(barriers.codes_empty[codes.stage], codes.parity ^ 1);
    }
    const uint32_t full = ptx::shared_address(&barriers.codes_full[codes.stage]);
    barriers.codes_end[codes.stage] = 0;
    ptx::mbarrier_arrive_expect_tx(full, T::kCodeBytes + T::kCodeScaleBytes);
    const int64_t from = static_cast<int64_t>(block.kv_pair) * params.value_tiles + tile;
    const uint32_t to = ptx::shared_address(shared.codes[codes.stage]);
    ptx::cp_async_bulk_shared_global(to, params.codes + from * T::kCodeBytes, T::kCodeBytes, full);
    ptx::cp_async_bulk_shared_global(to + T::kCodeBytes, params.code_scales + from * T::kCodeScaleBytes,
                                     T::kCodeScaleBytes, full);
    codes.advance();
  };
  const auto load_values = [&](const Block& block, int tile) {
    if constexpr (T::kPv == PvType::kFp4) {
      load_codes(block, tile);
      return;
    }
    wait_empty(barriers.v_empty[v.stage], v.parity);
    const uint32_t full = ptx::shared_address(&barriers.v_full[v.stage]);
    ptx::mbarrier_arrive_expect_tx(full, sizeof(shared.v[0]));
#pragma unroll
    for (int slab = 0; slab < T::kVSlabs; ++slab) {
      const uint32_t to = ptx::shared_address(shared.v[v.stage][slab]);
      if constexpr (T::kPv == PvType::kFp8) {
        ptx::cp_async_bulk_tensor_4d_shared_global(to, &v_map, tile * T::kTileKv + slab * 128, 0, block.kv_head,
                                                   block.batch, full);
      } else {
        ptx::cp_async_bulk_tensor_4d_shared_global(to, &v_map, slab * 64, tile * T::kTileKv + block.kv_row,
                                                   block.kv_head, params.cu_seqlens_q != nullptr ? 0 : block.batch,
                                                   full);
      }
    }
    v.advance();
  };

  for (int index = static_cast<int>(blockIdx.x); index < params.walk.tiles(); index = next_index(params, index)) {
    Block block;
    if (!locate<T>(params, index, block)) continue;
    PINCH_TRACE_STEP(TraceRole::kProducer, block.key_tiles);
    send_tile(index, &block);
    if (block.key_tiles == 0) continue;
    load_keys(block, block.key_tiles - 1);
    for (int tile = block.key_tiles - 1; tile > 0; --tile) {
      PINCH_TRACE_STEP(TraceRole::kProducer, tile);
      load_keys(block, tile - 1);
      load_values(block, tile);
    }
    PINCH_TRACE_STEP(TraceRole::kProducer, 0);
    load_values(block, 0);
  }
  send_tile(-1, nullptr);
  if constexpr (T::kPv == PvType::kFp4) {
    wait_for(barriers.codes_empty[codes.stage], codes.parity ^ 1);
    barriers.codes_end[codes.stage] = 1;
    arrive(barriers.codes_full[codes.stage]);
  }
  if (!params.dynamic) return;
  __threadfence();  // this CTA takes no more
  if (atomicAdd(params.counters + 1, 1u) + 1 == gridDim.x) {
    params.counters[0] = 0;
    params.counters[1] = 0;
  }
}

}  // namespace pinch::attention::sm90
