// The wgmma kernel: out[m, n] = alpha * a[m, k] * dequantised(weights)[n, k]^T, with operands swapped: the weights are
// wgmma's A, decoded into registers, and the activations its B, in shared memory, so a CTA computes a
// [tile_n, tile_m] tile of out^T.
//
// Roles: three producer warps fill a ring of stages by bulk copies (activations through a tensor map, codes and scales
// as contiguous runs); two or four consumer warpgroups decode and multiply. A consumer decodes group g + 1 of k16
// blocks after issuing the wgmma of group g and waiting for group g - 1, so decoding runs under the tensor core.
#pragma once

#include <cuda.h>

#include "kernels/common/cuda/ptx/bulk_copy.cuh"
#include "kernels/common/cuda/ptx/elect.cuh"
#include "kernels/common/cuda/ptx/fence.cuh"
#include "kernels/common/cuda/ptx/mbarrier.cuh"
#include "kernels/common/cuda/ptx/setmaxnreg.cuh"
#include "kernels/common/cuda/ptx/shared_access.cuh"
#include "kernels/common/cuda/ptx/wgmma.cuh"
#include "kernels/common/cuda/trace.cuh"
#include "kernels/gemm_bf16_fp4/sm90/epilogue.cuh"
#include "kernels/gemm_bf16_fp4/sm90/params.cuh"
#include "kernels/gemm_bf16_fp4/sm90/reduction.cuh"
#include "kernels/gemm_bf16_fp4/sm90/smem.cuh"
#include "kernels/gemm_bf16_fp4/sm90/traced/names.h"

namespace pinch::gemm_bf16_fp4::sm90 {

// A position in the ring: stage index, and the parity that its barriers complete with next.
template <int kStages>
struct RingPosition {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ RingPosition next() const {
    return stage + 1 == kStages ? RingPosition{0, parity ^ 1} : RingPosition{stage + 1, parity};
  }
};

__device__ __forceinline__ void wait_for(uint32_t barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
  }
}

// The vote makes the loop's exit uniform, so that what follows may live in uniform registers.
__device__ __forceinline__ void wait_for_warp(uint32_t barrier, uint32_t parity) {
  while (!__all_sync(0xFFFFFFFF, ptx::mbarrier_try_wait_parity(barrier, parity))) {
  }
}

// A worker's segments; with cluster_k, its one tile, of which each CTA takes a part of k.
template <typename T>
class Work {
 public:
  __device__ __forceinline__ Work(const Schedule& schedule, int worker, int cta_rank)
      : schedule_(schedule), walker_(schedule, worker), worker_(worker), cta_rank_(cta_rank) {}

  __device__ __forceinline__ bool next(Segment& segment) {
    if constexpr (T::kClusterK == 1) return walker_.next(segment);
    segment = {worker_, cta_rank_ * schedule_.k_iterations / T::kClusterK,
               (cta_rank_ + 1) * schedule_.k_iterations / T::kClusterK};
    const bool first = worker_ < schedule_.tiles();
    worker_ = schedule_.tiles();
    return first;
  }

 private:
  const Schedule& schedule_;
  SegmentWalker walker_;
  int worker_;
  int cta_rank_;
};

// First 64-row weight tile of this CTA's part of a tile.
template <typename T>
__device__ __forceinline__ int first_row_tile(int n_tile, int cta_rank) {
  return (n_tile * T::kCluster + cta_rank) * T::kRowTiles;
}

// Stages whose weights are asked for before the first one is full. Nothing starts without its activations, which would
// come behind all of them (m = 32, 19968 x 4096 in stages of 26 KB: 25.8 us with the whole ring ahead, 24.6 with two).
inline constexpr int kStagesAhead = 2;

// The three kinds of copies of a stage, one producer warp each: one thread alone issues too slowly (a stage of five
// copies took it 800 cycles where the tensor core needs 512).
enum class Copy { kActivations, kCodes, kScales };

template <typename T, Copy kCopy>
__device__ __forceinline__ void producer(SharedStorage<T>& shared, const WgmmaParams& params,
                                         const CUtensorMap& activations_map, const CUtensorMap& part_map, int worker,
                                         int cta_rank) {
  PINCH_TRACE_SCOPE_LATER();
  PINCH_TRACE_ROW(begins);
  PINCH_TRACE_ROW(ends);
  [[maybe_unused]] bool entered = false;
  constexpr int kRowsShare = T::kRowsShare;
  constexpr int kTileBytes = kCopy == Copy::kCodes ? T::kCodeTileBytes : T::kScaleTileBytes;
  constexpr int kWeightBytes = T::kSlabs * T::kRowTiles * kTileBytes;
  const int share = T::kCluster > 1 ? cta_rank : 0;
  const bool elected = ptx::elect_sync();
  if (kCopy == Copy::kActivations && elected) ptx::prefetch_tensormap(&activations_map);
  RingPosition<T::kStages> ring;
  int ahead = kCopy == Copy::kActivations ? 0 : kStagesAhead + 1;
  Work<T> work(params.schedule, worker, cta_rank);
  Segment segment;
  while (work.next(segment)) {
    const TilePosition position = position_of(params.schedule, segment.tile);
    const int first_m = position.m_tile * T::kTileM + share * kRowsShare;
    // Of the tile, whole parts that hold rows below m; and how many of them are this CTA's to send.
    const int tile_rows =
        min((params.m - position.m_tile * T::kTileM + T::kPartRows - 1) / T::kPartRows * T::kPartRows, T::kTileM);
    const int parts = max(0, min(T::kParts, (tile_rows - share * kRowsShare) / T::kPartRows));
    const uint8_t* source[T::kRowTiles];
    if constexpr (kCopy != Copy::kActivations) {
      // Row tiles past the end repeat the last one: their products are never stored.
#pragma unroll
      for (int r = 0; r < T::kRowTiles; ++r) {
        const int row_tile = min(first_row_tile<T>(position.n_tile, share) + r, params.row_tiles - 1);
        source[r] = (kCopy == Copy::kCodes ? params.codes : params.scales) +
                    static_cast<int64_t>(row_tile) * params.k_tiles * kTileBytes;
      }
    }
    [[maybe_unused]] int low = segment.k_begin;  // the first step that is kept and not stored
    for (int k = segment.k_begin; k < segment.k_end; ++k, ring = ring.next()) {
      const uint32_t full = ptx::shared_address(&shared.full[ring.stage]);
      if (kTraced) __syncwarp();  // each step's moments are another lane's, and one lane alone made the copies
      // Traced from its second round on: before that everybody waits for it.
      if (kTraced && !entered && ring.stage == 0 && ring.parity != 0) {
        entered = true;
        low = k;
        PINCH_TRACE_ENTER();
      }
      PINCH_TRACE_NOW(begin);
      wait_for(ptx::shared_address(&shared.empty[ring.stage]), ring.parity ^ 1);
      PINCH_TRACE_NOW(is_empty);
      PINCH_TRACE_KEEP(begins, k, begin);
      PINCH_TRACE_KEEP(ends, k, is_empty);
      if (kTraced && (k % 32 == 31 || k + 1 == segment.k_end)) {
        if (entered) {
          PINCH_TRACE_STEPS_OF(begins, TraceRole::kProducer, low, k);
          PINCH_TRACE_WAITS_OF(begins, ends, TraceWait::kEmpty, low, k);
        }
        low = k + 1;
      }
      if (ahead > 0 && --ahead == 0) wait_for(ptx::shared_address(&shared.full[0]), 0);
      if (!elected) continue;
      ptx::mbarrier_arrive_expect_tx(full, kCopy == Copy::kActivations ? T::kSlabs * tile_rows * 128 : kWeightBytes);
      if constexpr (kCopy == Copy::kActivations) {
        const auto copy = [&](const CUtensorMap& map, uint32_t to, int x, int y) {
          if constexpr (T::kCluster > 1) {
            ptx::cp_async_bulk_tensor_2d_multicast(to, &map, x, y, full, (1 << T::kCluster) - 1);
          } else {
            ptx::cp_async_bulk_tensor_2d_shared_global(to, &map, x, y, full);
          }
        };
#pragma unroll
        for (int slab = 0; slab < T::kSlabs; ++slab) {
          const int x = (k * T::kSlabs + slab) * 64;
          const uint32_t to = ptx::shared_address(shared.activations[ring.stage][slab]) + share * kRowsShare * 128;
          if (parts == T::kParts) {
            copy(activations_map, to, x, first_m);
          } else {
            for (int part = 0; part < parts; ++part)
              copy(part_map, to + part * (T::kPartRows * 128), x, first_m + part * T::kPartRows);
          }
        }
      } else {
        const int k_tile = k * T::kSlabs;
#pragma unroll
        for (int r = 0; r < T::kRowTiles; ++r) {
          const uint32_t to = ptx::shared_address(kCopy == Copy::kCodes ? shared.codes[ring.stage][r][0]
                                                                        : shared.scales[ring.stage][r][0]);
          const uint8_t* from = source[r] + static_cast<int64_t>(k_tile) * kTileBytes;
          if (k_tile + T::kSlabs <= params.k_tiles) {
            ptx::cp_async_bulk_shared_global(to, from, T::kSlabs * kTileBytes, full);
          } else {
            // A slab past the end of k repeats the last weight tile, against activations that the tensor map zeroes.
#pragma unroll
            for (int slab = 0; slab < T::kSlabs; ++slab)
              ptx::cp_async_bulk_shared_global(
                  to + slab * kTileBytes, from + min(slab, params.k_tiles - 1 - k_tile) * kTileBytes, kTileBytes, full);
          }
        }
      }
    }
  }
}

// How many lanes of a consumer's warp tell a producer that they have read a stage. racecheck sees barriers, and no
// __syncwarp of which ptxas leaves nothing because the lanes are together: it reports the 31 of 32 reads whose lanes
// arrive nowhere. So a build for it lets every lane arrive, and has no report.
#ifdef PINCH_EVERY_LANE_ARRIVES
inline constexpr int kArrivingLanes = 32;
#else
inline constexpr int kArrivingLanes = 1;
#endif

// Tells every producer of the cluster that this warp no longer reads the stage, if it is `read`: no branch around it.
template <typename T>
__device__ __forceinline__ void release_stage(uint32_t empty, bool read) {
  const int lane = threadIdx.x % 32;
  __syncwarp();  // all lanes have read
  if constexpr (T::kCluster > 1 && kArrivingLanes == 32) {
    for (int cta = 0; cta < T::kCluster; ++cta)
      if (read) ptx::mbarrier_arrive_cluster(ptx::mapa(empty, cta));
  } else if constexpr (T::kCluster > 1) {
    if (read && lane < T::kCluster) ptx::mbarrier_arrive_cluster(ptx::mapa(empty, lane));
  } else {
    if (read && (kArrivingLanes == 32 || lane == 0)) ptx::mbarrier_arrive(empty);
  }
}

// The same value, of which the compiler cannot see how it came about: it is kept, not computed again at each use.
__device__ __forceinline__ uint32_t kept(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// One thread's part of a 64 x 64 weight tile, as stored.
template <Format kFormat>
struct WeightSlab {
  uint32_t words[4];
  ScaleWords scales;

  // Addresses are this thread's own.
  __device__ __forceinline__ void load(uint32_t codes, uint32_t scale_bytes) {
    const uint4 four = ptx::ld_shared_v4_u32(codes);
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
    if constexpr (kFormat == Format::kNvfp4) {
      const uint2 two = ptx::ld_shared_v2_u32(scale_bytes);
      scales.word[0] = two.x;
      scales.word[1] = two.y;
    } else {
      scales.word[0] = ptx::ld_shared_u32(scale_bytes);
    }
  }

  __device__ __forceinline__ void decode(int block, uint32_t nvfp4_exponent, uint32_t (&into)[4]) const {
    const Fragment fragment =
        scale_fragment(decode_word(words[block]), decode_scale<kFormat>(scales, block, nvfp4_exponent));
#pragma unroll
    for (int i = 0; i < 4; ++i) into[i] = fragment.a[i];
  }
};

// Accumulates k iterations [segment.k_begin, segment.k_end) into `sums`.
template <typename T>
__device__ __forceinline__ void multiply(SharedStorage<T>& shared, const WgmmaParams& params,
                                         RingPosition<T::kStages>& ring, const Segment& segment, int warpgroup,
                                         float (&sums)[T::kRowBlocks][T::kTileM / 2] PINCH_TRACE_PARAMETER) {
  constexpr int kDescriptorStep = 32 >> 4;  // one k16 step inside the swizzled rows
  constexpr int kGroups = T::kSteps / T::kGroup;
  const int thread = threadIdx.x % 128;
  WeightSlab<T::kFormat> weights[T::kRowBlocks];
  WeightSlab<T::kFormat> incoming[T::kRowBlocks];  // the slab after: read early, so that decoding never waits for it
  uint32_t fragments[2][T::kGroup][T::kRowBlocks][4];

  const uint32_t codes = kept(ptx::shared_address(shared.codes[0][warpgroup * T::kRowBlocks][0]) + thread * 16);
  const uint32_t scales = kept(ptx::shared_address(shared.scales[0][warpgroup * T::kRowBlocks][0]) +
                               thread / 4 * (T::kScaleTileBytes / 32));
  const uint32_t full = kept(ptx::shared_address(&shared.full[0]));
  const uint32_t empty = kept(ptx::shared_address(&shared.empty[0]));
  const uint32_t activations = kept(ptx::wgmma_descriptor_swizzle128(ptx::shared_address(shared.activations[0][0])));
  const uint32_t nvfp4_exponent = kept(params.nvfp4_exponent);
  auto load_weights = [&](int stage, int slab) {
#pragma unroll
    for (int r = 0; r < T::kRowBlocks; ++r)
      incoming[r].load(
          codes + stage * static_cast<int>(sizeof(shared.codes[0])) + (r * T::kSlabs + slab) * T::kCodeTileBytes,
          scales + stage * static_cast<int>(sizeof(shared.scales[0])) + (r * T::kSlabs + slab) * T::kScaleTileBytes);
  };
  auto take_weights = [&] {
#pragma unroll
    for (int r = 0; r < T::kRowBlocks; ++r) weights[r] = incoming[r];
  };
  auto decode_group = [&](int group) {
#pragma unroll
    for (int i = 0; i < T::kGroup; ++i)
#pragma unroll
      for (int r = 0; r < T::kRowBlocks; ++r)
        weights[r].decode((group * T::kGroup + i) % 4, nvfp4_exponent, fragments[group % 2][i][r]);
  };
  const auto descriptor_of = [&](int stage) {
    return kept(activations + stage * static_cast<int>(sizeof(shared.activations[0]) >> 4));
  };

  PINCH_TRACE_STEP(TraceRole::kConsumer, segment.k_begin);  // up to the first product
  {
    PINCH_TRACE_WAIT(TraceWait::kFull);
    wait_for_warp(full + ring.stage * 8, ring.parity);
  }
  load_weights(ring.stage, 0);
  take_weights();
  if constexpr (T::kGroup == 4) load_weights(ring.stage, 1);
  decode_group(0);

  // The chain from a group's products through decoding to the next ones has no slack, so what of the loop can be
  // elsewhere does not stand in it: the next stage is asked for behind a product, where the warp waits anyway,
  // descriptors and addresses are made a stage ahead, and the one branch leads to the wait for a stage that was not
  // full (decision 0096). Stages of four groups have time to wait a group early and to read weights between two
  // products.
  constexpr bool kReadsBetween = T::kGroup == 2 && T::kSlabs == 2;
  constexpr int kWaits = kReadsBetween ? 1 : 0;  // the group that waits for the next stage
  int accumulate = 0;
  uint32_t descriptor = descriptor_of(ring.stage);
  uint32_t previous_empty = empty;
  PINCH_TRACE_ROW(begins);
  for (int k = segment.k_begin; k < segment.k_end; ++k) {
    PINCH_TRACE_NOW(begin);
    if (kTraced && k % 32 == 0 && k > segment.k_begin)
      PINCH_TRACE_STEPS_OF(begins, TraceRole::kConsumer, max(segment.k_begin, k - 32), k - 1);
    const RingPosition<T::kStages> next = ring.next();
    // Behind the last stage its own weights are read again, for products that are never issued.
    const RingPosition<T::kStages> then = k + 1 < segment.k_end ? next : ring;
    bool is_full = false;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      PINCH_TRACE_PHASE(TracePhase::kIssue);
      ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < T::kGroup; ++i) {
        const int step = group * T::kGroup + i;
        const uint32_t at = descriptor + step / 4 * (T::kTileM * 128 >> 4) + step % 4 * kDescriptorStep;
#pragma unroll
        for (int r = 0; r < T::kRowBlocks; ++r)
          ptx::Wgmma<T::kTileM>::bf16_rs(sums[r], fragments[group % 2][i][r], at, accumulate);
        accumulate = 1;
        if (step == 0) PINCH_TRACE_KEEP(begins, k, begin);
        if (step == 0) is_full = ptx::mbarrier_test_wait_parity(full + then.stage * 8, then.parity);
        if (kReadsBetween && step == 0) load_weights(ring.stage, 1);
        if (kReadsBetween && step == 4) load_weights(then.stage, 0);
      }
      ptx::wgmma_commit_group();
      PINCH_TRACE_PHASE(TracePhase::kDrain);
      ptx::wgmma_wait_group<1>();
      PINCH_TRACE_PHASE(TracePhase::kDecode);
      if (group == 0) {
        is_full = __all_sync(0xFFFFFFFF, is_full);
        release_stage<T>(previous_empty, k > segment.k_begin);
      }
      if (group == kWaits && !is_full) {
        PINCH_TRACE_WAIT(TraceWait::kFull);
        wait_for_warp(full + then.stage * 8, then.parity);
      }
      if constexpr (T::kGroup == 4) {
        take_weights();
        load_weights(then.stage, group);
      } else {
        if (!kReadsBetween && group == 0) load_weights(then.stage, 0);
        if ((group + 1) * T::kGroup % 4 == 0) take_weights();
      }
      if (group == kGroups - 1) {
        previous_empty = kept(empty + ring.stage * 8);
        descriptor = descriptor_of(next.stage);
      }
      decode_group((group + 1) % kGroups);
    }
    ring = next;
  }
  if (kTraced)
    PINCH_TRACE_STEPS_OF(begins, TraceRole::kConsumer, max(segment.k_begin, (segment.k_end - 1) & ~31),
                         segment.k_end - 1);
  ptx::wgmma_wait_group<0>();
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r)
#pragma unroll
    for (int i = 0; i < T::kTileM / 2; ++i) asm volatile("" : "+f"(sums[r][i])::"memory");
  release_stage<T>(previous_empty, true);
}

template <typename T>
__device__ __forceinline__ void consumer(SharedStorage<T>& shared, const WgmmaParams& params,
                                         const CUtensorMap& out_map, int worker, int cta_rank, int warpgroup) {
  PINCH_TRACE_SCOPE();
  RingPosition<T::kStages> ring;
  Work<T> work(params.schedule, worker, cta_rank);
  Segment segment;
  while (work.next(segment)) {
    float sums[T::kRowBlocks][T::kTileM / 2];
    if (T::kClusterK == 1 || segment.k_begin < segment.k_end) {
      multiply<T>(shared, params, ring, segment, warpgroup, sums PINCH_TRACE_PASSED);
    } else {
#pragma unroll
      for (int r = 0; r < T::kRowBlocks; ++r)
#pragma unroll
        for (int i = 0; i < T::kTileM / 2; ++i) sums[r][i] = 0;
    }
    PINCH_TRACE_STEP(TraceRole::kEpilogue, segment.tile);
    if constexpr (T::kClusterK == 1) {
      if (segment.k_end < params.schedule.k_iterations) {
        store_partial<T>(params, worker * T::kCluster + cta_rank, warpgroup, sums);
        __syncwarp();
        continue;
      }
      if (segment.k_begin > 0) add_partials<T>(params, segment, worker, cta_rank, warpgroup, sums);
    } else {
      exchange_sums<T>(shared, cta_rank, warpgroup, sums);
    }
    const TilePosition position = position_of(params.schedule, segment.tile);
    const int first_m = position.m_tile * T::kTileM;
    const int first_n = first_row_tile<T>(position.n_tile, T::kCluster > 1 ? cta_rank : 0) * 64;
#pragma unroll
    for (int own = 0; own < T::kClusterK; ++own) {
      if (T::kClusterK > 1 && own != cta_rank) continue;
      if constexpr (T::kStagedOutput) {
        store_staged<T>(shared, params, out_map, first_m, first_n, warpgroup, own * T::kOwnColumns, sums);
      } else {
        store_direct<T>(params, first_m, first_n, warpgroup, own * T::kOwnColumns, sums);
      }
    }
    // Without the two __syncwarp, ptxas keeps the ring and the descriptors in per-thread registers: 10 of the loop's
    // 123 instructions more a slab.
    __syncwarp();
  }
  // The copies out read shared memory, which must live until then.
  if (T::kStagedOutput && threadIdx.x % 128 == 0) ptx::cp_async_bulk_wait_group_read<0>();
}

template <typename T>
__global__ void __launch_bounds__(T::kThreads, 1)
    wgmma_kernel(const __grid_constant__ CUtensorMap activations_map, const __grid_constant__ CUtensorMap part_map,
                 const __grid_constant__ CUtensorMap out_map, const __grid_constant__ WgmmaParams params) {
  extern __shared__ __align__(1024) uint8_t shared_memory[];
  auto& shared = *reinterpret_cast<SharedStorage<T>*>(shared_memory);
  const int warpgroup = __shfl_sync(0xFFFFFFFF, threadIdx.x / 128, 0);
  const int cta_rank = T::kClusterSize > 1 ? ptx::cluster_ctarank() : 0;
  const int worker = blockIdx.x / T::kClusterSize;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < T::kStages; ++stage) {
      ptx::mbarrier_init(ptx::shared_address(&shared.full[stage]), 3);  // producer warps
      ptx::mbarrier_init(ptx::shared_address(&shared.empty[stage]), T::kConsumers * 4 * T::kCluster * kArrivingLanes);
    }
    ptx::mbarrier_init(ptx::shared_address(&shared.sums_received), 1);
    if constexpr (T::kClusterK > 1)
      ptx::mbarrier_arrive_expect_tx(ptx::shared_address(&shared.sums_received), sizeof(shared.received));
    ptx::fence_mbarrier_init();
  }
  if constexpr (T::kClusterSize > 1) {
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
  } else {
    __syncthreads();
  }

  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<T::kProducerRegisters>();
    const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
    if (warp == 0) producer<T, Copy::kActivations>(shared, params, activations_map, part_map, worker, cta_rank);
    if (warp == 1) producer<T, Copy::kCodes>(shared, params, activations_map, part_map, worker, cta_rank);
    if (warp == 2) producer<T, Copy::kScales>(shared, params, activations_map, part_map, worker, cta_rank);
    __syncwarp();
  } else {
    ptx::setmaxnreg_inc<T::kConsumerRegisters>();
    consumer<T>(shared, params, out_map, worker, cta_rank, warpgroup - 1);
    __syncwarp();
  }
  // A CTA's shared memory must outlive the copies and arrivals that its cluster still sends to it.
  if constexpr (T::kCluster > 1) {
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
  }
}

}  // namespace pinch::gemm_bf16_fp4::sm90
