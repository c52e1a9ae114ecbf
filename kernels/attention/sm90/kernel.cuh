// Attention forward: O = softmax(scale Q K^T + mask) V for a CTA's query tiles, one after another.
//
// Roles: one producer thread loads queries, keys and values through tensor maps into shared memory; each consumer
// warpgroup has 64 queries of the tile. Keys are walked last to first. A consumer issues the scores of the next key
// tile, then the product of this one, and computes the softmax of the next under that product; consumers take turns at
// issuing (named barriers), so that one's softmax also runs under the other's products.
#pragma once

#include <cuda.h>

#include "kernels/attention/sm90/epilogue.cuh"
#include "kernels/attention/sm90/producer.cuh"
#include "kernels/attention/sm90/softmax.cuh"
#include "kernels/attention/sm90/traced/names.h"
#include "kernels/attention/sm90/values.cuh"
#include "kernels/common/cuda/ptx/elect.cuh"
#include "kernels/common/cuda/ptx/fence.cuh"
#include "kernels/common/cuda/ptx/ldst.cuh"
#include "kernels/common/cuda/ptx/named_barrier.cuh"
#include "kernels/common/cuda/ptx/setmaxnreg.cuh"
#include "kernels/common/cuda/ptx/wgmma.cuh"

namespace pinch::attention::sm90 {

// Named barriers; 0 is __syncthreads'. kTurn + w: consumer warpgroup w may issue.
enum NamedBarrier { kTurn = 1, kTailCleared = 4 };

template <typename T>
__device__ __forceinline__ void issue_scores(const SharedStorage<T>& shared, int warpgroup, int q_stage, int stage,
                                             float (&s)[T::kTileKv / 2]) {
  const uint32_t q = ptx::wgmma_descriptor_swizzle128(ptx::shared_address(shared.q[q_stage][warpgroup][0]));
  const uint32_t k = ptx::wgmma_descriptor_swizzle128(ptx::shared_address(shared.k[stage][0]));
#pragma unroll
  for (int step = 0; step < T::kQkSteps; ++step) {
    const uint32_t a = q + step / 4 * (kWarpgroupRows * 128 >> 4) + step % 4 * 2;
    const uint32_t b = k + step / 4 * (T::kTileKv * 128 >> 4) + step % 4 * 2;
    if constexpr (T::kQk == QkType::kFp8) {
      ptx::Wgmma<T::kTileKv>::e4m3_ss(s, a, b, step != 0);
    } else {
      ptx::Wgmma<T::kTileKv>::bf16_ss(s, a, b, step != 0);
    }
  }
}

// Steps [kBegin, kEnd) of P.V. Promoted sums start from zero.
template <typename T, int kBegin, int kEnd>
__device__ __forceinline__ void issue_product(const SharedStorage<T>& shared, int stage,
                                              const uint32_t (&p)[T::kSteps][4], float (&sums)[T::kDim / 2]) {
  const uint32_t address = ptx::shared_address(shared.v[stage][0]);
#pragma unroll
  for (int step = kBegin; step < kEnd; ++step) {
    if constexpr (T::kPv == PvType::kFp8) {
      ptx::Wgmma<T::kDim>::e4m3_rs(sums, p[step], ptx::wgmma_descriptor_swizzle128(address) + step * 2, step != 0);
    } else {
      ptx::Wgmma<T::kDim>::bf16_rs_mn(
          sums, p[step], ptx::wgmma_descriptor_mn_swizzle128(address, T::kTileKv * 128) + step * (16 * 128 >> 4), 1);
    }
  }
  ptx::wgmma_commit_group();
}

// Rows of V past a sequence's end, which another sequence may fill with what is no number: P there is 0, which an
// infinity would not leave 0.
template <typename T>
__device__ __forceinline__ void clear_tail(SharedStorage<T>& shared, int stage, int first_row) {
  constexpr int kChunks = 8;  // of 16 bytes a row
  const int thread = static_cast<int>(threadIdx.x) - 128;
  for (int slab = 0; slab < T::kVSlabs; ++slab) {
    const uint32_t rows = ptx::shared_address(shared.v[stage][slab]);
    for (int i = first_row * kChunks + thread; i < T::kTileKv * kChunks; i += T::kConsumers * 128)
      ptx::st_shared_v4(rows + i * 16, 0, 0, 0, 0);
  }
  ptx::fence_proxy_async_shared();
  ptx::bar_sync(kTailCleared, T::kConsumers * 128);
}

// What one consumer warpgroup keeps from tile to tile.
template <typename T>
struct Consumer {
  SharedStorage<T>& shared;
  const Params& params;
  int warpgroup;
  PINCH_TRACE_MEMBER
  RingPosition<T::kStages> k, v;
  RingPosition<T::kQStages> q;  // of the block's queries

  __device__ __forceinline__ void take_turn() const { ptx::bar_sync(kTurn + warpgroup, 256); }
  __device__ __forceinline__ void give_turn() const {
    ptx::bar_arrive(kTurn + (warpgroup + 1 == T::kConsumers ? 0 : warpgroup + 1), 256);
  }
  __device__ __forceinline__ void wait_keys() const {
    wait_for_warp_as(TraceWait::kKeys, shared.barriers.k_full[k.stage], k.parity PINCH_TRACE_PASSED);
  }
  // Of the stage after this one.
  __device__ __forceinline__ bool next_keys_there() const {
    RingPosition<T::kStages> next = k;
    next.advance();
    return __all_sync(0xFFFFFFFF, ptx::mbarrier_test_wait_parity(
                                      ptx::shared_address(&shared.barriers.k_full[next.stage]), next.parity));
  }
  __device__ __forceinline__ void wait_values() const {
    wait_for_warp_as(TraceWait::kValues, shared.barriers.v_full[v.stage], v.parity PINCH_TRACE_PASSED);
  }
  __device__ __forceinline__ void release_keys() {
    arrive_warp(shared.barriers.k_empty[k.stage]);
    k.advance();
  }
  __device__ __forceinline__ void release_values() {
    arrive_warp(shared.barriers.v_empty[v.stage]);
    v.advance();
  }
  __device__ __forceinline__ void release_queries() {
    arrive_warp(shared.barriers.q_empty[q.stage][warpgroup]);
    q.advance();
  }

  // The first of this thread's two rows.
  __device__ __forceinline__ int first_row(const Block& block) const {
    return block.first_query + warpgroup * kWarpgroupRows +
           static_cast<int>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
  }

  // The next tile that sees a key, its queries in shared memory; tiles that see none are written on the way. False at
  // the end.
  __device__ __forceinline__ bool next_block(Block& block) {
    for (;;) {
      wait_for_warp_as(TraceWait::kQueries, shared.barriers.q_full[q.stage][warpgroup], q.parity PINCH_TRACE_PASSED);
      const int index = read_by_first_lane(shared.barriers.tile[q.stage][warpgroup]);
      if (index < 0) return false;
      locate<T>(params, index, block);
      if (block.key_tiles > 0) return true;
      release_queries();
      constexpr float kNone = -__builtin_huge_valf();
      const float zeros[T::kDim / 2] = {}, factor[2] = {0, 0}, lse[2] = {kNone, kNone};
      epilogue<T>(params, output_rows(params, block, first_row(block)), zeros, factor, lse);
      __syncwarp();
    }
  }

  __device__ __forceinline__ void run();
};

template <typename T>
__device__ __forceinline__ void Consumer<T>::run() {
  const int lane = threadIdx.x % 32;
  Block block;
  PINCH_TRACE_STEP(TraceRole::kProduct, 0);
  if (!next_block(block)) return;
  float s[T::kTileKv / 2];
  float rest[Softmax<T>::kRest];
  uint32_t p[T::kSteps][4];
  float o[T::kDim / 2];
  float product[T::kPromoted ? T::kDim / 2 : 1];  // of one key tile
  const auto first_scores = [&] {
    wait_keys();
    ptx::wgmma_fence();
    issue_scores<T>(shared, warpgroup, q.stage, k.stage, s);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
  };
  first_scores();

  for (;;) {
    // Here the scores of the block's last key tile are there.
    const int row = first_row(block);
    const int visible[2] = {block.visible(params, row) - 2 * (lane % 4),
                            block.visible(params, row + 8) - 2 * (lane % 4)};
    // Every row of the warpgroup sees all of the key tiles before this one.
    const int whole_tiles = max(0, block.visible(params, block.first_query + warpgroup * kWarpgroupRows)) / T::kTileKv;

    float scale = params.scale_log2, value_scale = 1;
    if constexpr (T::kPv != PvType::kBf16) {
      const float* const of_kv = params.amax + params.batch * params.heads;
      const float amax = of_kv[params.batch * params.kv_heads + block.kv_pair];
      value_scale =
          T::kPv == PvType::kFp8 ? fp8_scale(amax) : 1.0F / (kE4m3Max * kE2m1Max * kDecodedUnit) / fp4_v_global(amax);
      if constexpr (T::kQk == QkType::kFp8)
        scale *= fp8_scale(params.amax[block.pair]) * fp8_scale(of_kv[block.kv_pair]);
    }

    Softmax<T> softmax(params, scale);
    float alpha[2] = {1, 1}, decay[2];

    const auto hide = [&](int tile) {
      const int left[2] = {visible[0] - tile * T::kTileKv, visible[1] - tile * T::kTileKv};
      Softmax<T>::hide(s, left);
    };
    const auto multiply_first = [&] {
      if constexpr (T::kPromoted) {
        issue_product<T, 0, T::kRead>(shared, v.stage, p, product);
      } else {
        issue_product<T, 0, T::kRead>(shared, v.stage, p, o);
      }
    };
    const auto multiply_rest = [&] {
      if constexpr (T::kRead < T::kSteps) {
        softmax.finish(rest, p);
        ptx::wgmma_fence();
        if constexpr (T::kPromoted) {
          issue_product<T, T::kRead, T::kSteps>(shared, v.stage, p, product);
        } else {
          issue_product<T, T::kRead, T::kSteps>(shared, v.stage, p, o);
        }
      }
    };
    // After the product of a tile: its sums into O, and O to the maxima that `alpha` leads to.
    const auto accumulate = [&](bool last) {
      if constexpr (T::kPromoted) {
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) o[i] = fma(o[i], decay[row_of(i)], product[i]);
        decay[0] = alpha[0];
        decay[1] = alpha[1];
      } else if (!last && __any_sync(0xFFFFFFFF, alpha[0] != 1.0F || alpha[1] != 1.0F)) {
#pragma unroll
        for (int i = 0; i < T::kDim / 2; ++i) o[i] *= alpha[row_of(i)];
      }
    };

    int tile = block.key_tiles - 1;
    PINCH_TRACE_NOW(scores);
    PINCH_TRACE_ROW(softmaxes);
    PINCH_TRACE_ROW(products);
    PINCH_TRACE_ROW(turns);
    release_keys();
    if (tile == 0) release_queries();
#pragma unroll
    for (int i = 0; i < T::kDim / 2; ++i) o[i] = 0;
    hide(tile);
    softmax.update(s, decay);
    softmax.begin(s, rest);
    Softmax<T>::write(s, p);
    if constexpr (T::kPv == PvType::kBf16) {
      if (params.cu_seqlens_kv != nullptr && (tile + 1) * T::kTileKv > block.kv_seq) {
        wait_values();
        clear_tail<T>(shared, v.stage, block.kv_seq - tile * T::kTileKv);
      }
    }

    // Here and not where they are needed: the branches keep ptxas from moving the exponentials above behind the wait
    // for the product that they are to run under.
    // A traced build asks where the warp waits for its scores, so that it need not where it waits for nothing. What it
    // alone does is not even compiled in the other: ptxas orders a loop anew for less.
    [[maybe_unused]] bool keys_there = false;
    const auto wait_for_next_keys = [&] {
      if constexpr (kTraced) {
        if (tile > 0 && !keys_there) wait_keys();
      } else {
        if (tile > 0) wait_keys();
      }
    };
    wait_for_next_keys();

    [[maybe_unused]] const auto store_kept = [&]([[maybe_unused]] int low) {
      [[maybe_unused]] const int high = min(block.key_tiles - 1, low | 31);
      PINCH_TRACE_STEPS_OF(softmaxes, TraceRole::kSoftmax, low, high);
      PINCH_TRACE_STEPS_OF(products, TraceRole::kProduct, low, high);
      PINCH_TRACE_WAITS_OF(products, turns, TraceWait::kTurn, low, high);
    };

    const auto step = [&](bool masked) {
      PINCH_TRACE_NOW(begin);
      take_turn();
      if constexpr (kTraced) __syncwarp();  // the clock would be read before the warp stands at the barrier
      PINCH_TRACE_NOW(turn);
      ptx::wgmma_fence();
      issue_scores<T>(shared, warpgroup, q.stage, k.stage, s);
      ptx::wgmma_commit_group();
      if constexpr (kTraced) keys_there = next_keys_there();
      PINCH_TRACE_KEEP(softmaxes, tile, scores);
      PINCH_TRACE_KEEP(products, tile, begin);
      PINCH_TRACE_KEEP(turns, tile, turn);
      if constexpr (kTraced) {
        if (tile % 32 == 0) store_kept(tile);
      }
      wait_values();
      multiply_first();
      multiply_rest();
      give_turn();
      PINCH_TRACE_PHASE(TracePhase::kScores);
      ptx::wgmma_wait_group<(T::kRead < T::kSteps) ? 2 : 1>();
      PINCH_TRACE_RENEW(scores);
      release_keys();
      --tile;
      if (tile == 0) release_queries();
      if (masked) hide(tile);
      softmax.update(s, alpha);
      if constexpr (T::kPromoted) {
        // An fp8 product is short: it is over by now, and adding it up runs under the exponentials.
        wait_for_next_keys();
        PINCH_TRACE_PHASE(TracePhase::kDrain);
        ptx::wgmma_wait_group<0>();
        release_values();
        accumulate(false);
        PINCH_TRACE_PHASE(TracePhase::kExponentials);
        softmax.begin(s, rest);
      } else {
        PINCH_TRACE_PHASE(TracePhase::kExponentials);
        softmax.begin(s, rest);
        wait_for_next_keys();
        PINCH_TRACE_PHASE(TracePhase::kDrain);
        ptx::wgmma_wait_group<0>();
        release_values();
        accumulate(false);
      }
      PINCH_TRACE_PHASE(TracePhase::kWrite);
      Softmax<T>::write(s, p);
    };
    while (tile > 0 && tile > whole_tiles) step(true);
    while (tile > 0) step(false);
    if constexpr (kTraced) store_kept(1);
    PINCH_TRACE_STEP_AT(scores, TraceRole::kSoftmax, 0);

    float factor[2], lse[2];
    const auto finish_rows = [&] {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float sum = softmax.total(r);
        // Every score minus infinity; or no key, where a scale that is NaN makes the sum one too.
        const bool none = sum == 0.0F || visible[r] + 2 * (lane % 4) <= 0;
        factor[r] = none ? 0.0F : __fdividef(value_scale, sum);
        lse[r] = none ? -__builtin_huge_valf() : softmax.log_sum_exp(r, sum);
      }
    };
    const auto last_product = [&] {
      wait_values();
      ptx::wgmma_fence();
      multiply_first();
      multiply_rest();
      finish_rows();
      ptx::wgmma_wait_group<0>();
      release_values();
      accumulate(true);
    };
    const OutputRows out = output_rows(params, block, row);
    PINCH_TRACE_STEP(TraceRole::kProduct, 0);
    if constexpr (T::kPromoted) {  // there are no registers for more scores here
      last_product();
      PINCH_TRACE_STEP(TraceRole::kEpilogue, block.first_query);
      epilogue<T>(params, out, o, factor, lse);
      PINCH_TRACE_STEP(TraceRole::kProduct, 0);
      if (!next_block(block)) return;
      first_scores();
    } else {
      if (!next_block(block)) {
        last_product();
        PINCH_TRACE_STEP(TraceRole::kEpilogue, 0);
        epilogue<T>(params, out, o, factor, lse);
        return;
      }
      // The next block's first scores go with this one's last product.
      wait_keys();
      {
        PINCH_TRACE_WAIT(TraceWait::kTurn);
        take_turn();
      }
      ptx::wgmma_fence();
      issue_scores<T>(shared, warpgroup, q.stage, k.stage, s);
      ptx::wgmma_commit_group();
      wait_values();
      multiply_first();
      multiply_rest();
      give_turn();
      finish_rows();
      ptx::wgmma_wait_group<0>();
      release_values();
      PINCH_TRACE_STEP(TraceRole::kEpilogue, 0);
      epilogue<T>(params, out, o, factor, lse);
    }
    __syncwarp();
  }
}

template <typename T>
__device__ __forceinline__ void consumer(SharedStorage<T>& shared, const Params& params, int warpgroup) {
  PINCH_TRACE_SCOPE();
  Consumer<T> self{shared, params, warpgroup PINCH_TRACE_PASSED};
  if (warpgroup == T::kConsumers - 1) self.give_turn();
  self.run();
}

template <typename T>
__global__ void __launch_bounds__(T::kThreads, 1)
    attention_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                     const __grid_constant__ CUtensorMap v_map, const __grid_constant__ Params params) {
  extern __shared__ __align__(1024) uint8_t shared_memory[];
  auto& shared = *reinterpret_cast<SharedStorage<T>*>(shared_memory);
  const int warpgroup = __shfl_sync(0xFFFFFFFF, threadIdx.x / 128, 0);

  if (threadIdx.x == 0) {
    const auto init = [](uint64_t& barrier, int arrivals) {
      ptx::mbarrier_init(ptx::shared_address(&barrier), static_cast<uint32_t>(arrivals));
    };
    const auto init_for_warps = [&](uint64_t& barrier, int warps) { init(barrier, warps * kArrivingLanes); };
    for (int stage = 0; stage < T::kQStages; ++stage) {
      for (int w = 0; w < T::kConsumers; ++w) {
        init(shared.barriers.q_full[stage][w], 1);
        init_for_warps(shared.barriers.q_empty[stage][w], 4);
      }
    }
    for (int stage = 0; stage < T::kStages; ++stage) {
      init(shared.barriers.k_full[stage], 1);
      if constexpr (T::kPv == PvType::kFp4) {
        init_for_warps(shared.barriers.v_full[stage], T::kDecodeWarps);
      } else {
        init(shared.barriers.v_full[stage], 1);
      }
      init_for_warps(shared.barriers.k_empty[stage], T::kConsumers * 4);
      init_for_warps(shared.barriers.v_empty[stage], T::kConsumers * 4);
    }
    for (int buffer = 0; buffer < 2; ++buffer) {
      init(shared.barriers.codes_full[buffer], 1);
      init_for_warps(shared.barriers.codes_empty[buffer], T::kDecodeWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<T::kProducerRegisters>();
    const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
    if (warp == 0 && ptx::elect_sync()) producer<T>(shared, params, q_map, k_map, v_map);
    if constexpr (T::kDecodeWarps > 0) {
      if (warp >= 4 - T::kDecodeWarps) decoder<T>(shared, static_cast<int>(threadIdx.x) - (4 - T::kDecodeWarps) * 32);
    }
    __syncwarp();
  } else {
    ptx::setmaxnreg_inc<T::kConsumerRegisters>();
    consumer<T>(shared, params, warpgroup - 1);
    __syncwarp();
  }
}

}  // namespace pinch::attention::sm90
