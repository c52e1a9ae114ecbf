// The streaming kernel for small m: weights go through a small ring of each warp to its registers, are decoded there
// and feed mma.sync as its A operand (16 output channels a tile), with activations as B (8 rows of m a block) from
// shared memory.
//
// A warp keeps `in_flight` k tiles loading, across the ends of row groups, so the memory pipe never drains; when a row
// group ends its team meets at a barrier and a few warps, others each time, add up the sums.
//
// Partial sums meet in a fixed order: a team's warps through shared memory, a cluster's blocks and the two sides of a
// cut row group through the workspace. No float atomics; two runs give the same bits.
#pragma once

#include "kernels/common/cuda/ptx/acquire_release.cuh"
#include "kernels/common/cuda/ptx/bulk_copy.cuh"
#include "kernels/common/cuda/ptx/fence.cuh"
#include "kernels/common/cuda/ptx/ldst.cuh"
#include "kernels/common/cuda/ptx/mbarrier.cuh"
#include "kernels/common/cuda/ptx/mma.cuh"
#include "kernels/common/cuda/ptx/named_barrier.cuh"
#include "kernels/common/cuda/ptx/shared_access.cuh"
#include "kernels/common/cuda/trace.cuh"
#include "kernels/gemm_bf16_fp4/sm90/stream/schedule.cuh"
#include "kernels/gemm_bf16_fp4/sm90/stream/smem.h"
#include "kernels/gemm_bf16_fp4/sm90/traced/names.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// One k tile of a row group's weights, in registers.
template <class Traits>
struct StreamSlot {
  uint4 codes[Traits::kRowTiles];
  ScaleWords scales[Traits::kRowTiles];
};

/// A warp's ring of k tiles in shared memory, filled by cp.async, whose groups complete in order. Loads to registers
/// take fewer instructions, but ptxas puts all that cross an iteration on one scoreboard, so that a warp waits for its
/// youngest load before it uses the oldest.
template <class Traits>
class StreamRing {
 public:
  /// `ring` is the warp's, in the shared window; codes and scales are of tile 0 of the matrix.
  __device__ __forceinline__ StreamRing(std::uint32_t ring, const std::uint8_t* codes, const std::uint8_t* scales,
                                        int lane)
      : codes_(codes + lane * 16),
        scales_(scales + lane * 16),
        write_(ring + lane * 16),
        read_scales_(ring + Traits::kSlotScales + lane / 4 * (Traits::kScaleTile / 32)),
        brings_scales_(lane < Traits::kRowTiles * Traits::kScaleTile / 64) {}

  /// Starts filling slot `u` with tile `u` of a chunk that starts at position `m16_at`, in units of an m16 part of a
  /// tile; with nothing unless `inside`.
  __device__ __forceinline__ void fetch(std::uint32_t m16_at, int u, bool inside) const {
    constexpr int kCodes = Traits::kCodeTile / 4, kScales = Traits::kScaleTile / 4;
    const std::uint8_t* codes =
        codes_ + static_cast<std::size_t>(m16_at) * kCodes + u * Traits::kTeamWarps * Traits::kCodeTile;
    const std::uint8_t* scales =
        scales_ + static_cast<std::size_t>(m16_at) * kScales + u * Traits::kTeamWarps * Traits::kScaleTile;
    const std::uint32_t slot = write_ + u * Traits::kSlotBytes;
#pragma unroll
    for (int r = 0; r < Traits::kRowTiles; ++r) ptx::cp_async_cg_16(slot + r * kCodes, codes + r * kCodes, inside);
    ptx::cp_async_cg_16(slot + Traits::kSlotScales, scales, inside && brings_scales_);
    ptx::cp_async_commit_group();
  }

  /// The tile in slot `u`, the oldest; afterwards the slot may be filled again.
  __device__ __forceinline__ StreamSlot<Traits> take(int u PINCH_TRACE_PARAMETER) const {
    {
      PINCH_TRACE_WAIT(StreamWait::kWeights);
      ptx::cp_async_wait_group<Traits::kInFlight - 1>();
    }
    __syncwarp();  // scales came through other lanes
    StreamSlot<Traits> s;
#pragma unroll
    for (int r = 0; r < Traits::kRowTiles; ++r) {
      s.codes[r] = ptx::ld_shared_v4_u32(write_ + u * Traits::kSlotBytes + r * (Traits::kCodeTile / 4));
      const std::uint32_t scales = read_scales_ + u * Traits::kSlotBytes + r * (Traits::kScaleTile / 4);
      if constexpr (Traits::kFormat == Format::kNvfp4) {
        const uint2 v = ptx::ld_shared_v2_u32(scales);
        s.scales[r] = {{v.x, v.y}};
      } else {
        s.scales[r] = {{ptx::ld_shared_u32(scales), 0}};
      }
    }
    __syncwarp();
    return s;
  }

 private:
  const std::uint8_t* codes_;  // this lane's 16 bytes of a tile
  const std::uint8_t* scales_;
  std::uint32_t write_;
  std::uint32_t read_scales_;
  bool brings_scales_;
};

/// One thread of each block asks L2 for a part of the activations: together they fetch each line once, before the
/// weights fill the queues.
__device__ __forceinline__ void prefetch_activations(const StreamParams& p) {
  constexpr int kPieceBytes = 512;
  const int row_bytes = p.args.k * 2, pieces = (row_bytes + kPieceBytes - 1) / kPieceBytes, total = p.args.m * pieces;
#pragma unroll 1
  for (int i = static_cast<int>(blockIdx.x); i < total; i += static_cast<int>(gridDim.x)) {
    const int row = i / pieces, at = i % pieces * kPieceBytes;
    ptx::cp_async_bulk_prefetch_l2(reinterpret_cast<const std::uint8_t*>(p.args.a + row * p.args.lda) + at,
                                   min(kPieceBytes, row_bytes - at));
  }
}

/// By the copy engine, part after part, each counted on a barrier of its own, so that the first k tiles are multiplied
/// while the others come. Where two blocks want the same slice, each fetches half of it for both: all blocks read the
/// same bytes at once, and for eight rows that is as much traffic from L2 as 4096x4096 weights. Blocks start at
/// different rows, since in the same order they would queue at one L2 slice.
__device__ __forceinline__ void copy_activations(const StreamParams& p, std::uint32_t x_smem, std::uint32_t barriers,
                                                 int first_col, int cols) {
  constexpr int kPieceCols = kTileCols << kLeastPartLog2;
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const int part_cols = kTileCols << p.part_log2, part = thread * part_cols;
  const bool two = p.fetch == Fetch::kTwoBlocks;
  if (part < cols && thread < kMostParts) ptx::mbarrier_init(barriers + thread * 8, 1);
  if (thread < 32) ptx::fence_mbarrier_init();
  if (two) ptx::barrier_cluster_arrive_relaxed();
  if (thread >= 32) return;
  if (two) ptx::barrier_cluster_wait();  // the other block's barriers are there
  if (part < cols && thread < kMostParts)
    ptx::mbarrier_arrive_expect_tx(barriers + thread * 8, p.args.m * min(part_cols, cols - part) * 2);
  __syncwarp();
  const int total = p.args.m * ((cols + kPieceCols - 1) / kPieceCols);
  const int share = two ? 2 : 1, rank = block % share;
#pragma unroll 1
  for (int i = thread * share + rank; i < total; i += 32 * share) {
    const int piece = i / p.args.m, row = (i + block - rank) % p.args.m, col = piece * kPieceCols;
    const std::uint32_t to = x_smem + row * p.x_stride_bytes + col * 2;
    const auto* from = p.args.a + row * p.args.lda + first_col + col;
    const int bytes = min(kPieceCols, cols - col) * 2;
    const std::uint32_t barrier = barriers + (piece >> (p.part_log2 - kLeastPartLog2)) * 8;
    if (two) {
      ptx::cp_async_bulk_shared_global_multicast(to, from, bytes, barrier, 3);
    } else {
      ptx::cp_async_bulk_shared_global(to, from, bytes, barrier);
    }
  }
}

/// Starts copying this block's slice of the activations to shared memory; fetched_activations ends it. Columns past k
/// become zeros, since the weights there are zeros and must not meet a NaN.
__device__ __forceinline__ void fetch_activations(const StreamParams& p, std::uint32_t x_smem, std::uint32_t barriers,
                                                  int first_tile, int tiles) {
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int first_col = first_tile * kTileCols, cols = min(tiles * kTileCols, p.args.k - first_col);
  if (p.fetch == Fetch::kThreads) {
#pragma unroll 1
    for (int row = 0; row < p.args.m; ++row) {
#pragma unroll 2
      for (int col = thread * 8; col < cols; col += threads * 8)
        ptx::cp_async_cg_16(x_smem + row * p.x_stride_bytes + col * 2, p.args.a + row * p.args.lda + first_col + col,
                            true);
    }
    ptx::cp_async_commit_group();
  } else {
    copy_activations(p, x_smem, barriers, first_col, cols);
  }
  if (cols < tiles * kTileCols) {  // half a k tile is missing: 64 bytes a row
#pragma unroll 1
    for (int i = thread; i < p.args.m * 4; i += threads) {
      ptx::st_shared_v4(x_smem + i / 4 * p.x_stride_bytes + cols * 2 + i % 4 * 16, 0.f, 0.f, 0.f, 0.f);
    }
  }
}

/// What a warp knows of the activations that have come.
struct Activations {
  std::uint32_t barriers;
  int part_log2;
  int here;  // parts

  /// Waits until the part with k tile `tile` of the slice is there, and those before it.
  __device__ __forceinline__ void await(int tile PINCH_TRACE_PARAMETER) {
    for (; here <= tile >> part_log2; ++here) {
      PINCH_TRACE_WAIT(StreamWait::kActivations);
      while (!ptx::mbarrier_try_wait_parity(barriers + here * 8, 0)) {
      }
    }
  }
};

/// Ends fetch_activations: those of the threads are there, those of the copy engine may be awaited. Each warp has asked
/// for `kAfter` k tiles since.
template <int kAfter>
__device__ __forceinline__ Activations fetched_activations(const StreamParams& p, std::uint32_t barriers) {
  if (p.fetch == Fetch::kThreads) ptx::cp_async_wait_group<kAfter>();
  __syncthreads();
  if (p.fetch == Fetch::kTwoBlocks && threadIdx.x >= 32) ptx::barrier_cluster_wait();
  return {barriers, p.part_log2, p.fetch == Fetch::kThreads ? kMostParts : 0};
}

/// acc += weights of one slot times the activations at `x`, a shared address a lane.
template <class Traits>
__device__ __forceinline__ void multiply(const StreamSlot<Traits>& slot, std::uint32_t x, std::uint32_t m_block_bytes,
                                         std::uint32_t nvfp4_exponent,
                                         float (&acc)[Traits::kRowTiles][Traits::kMBlocks][4]) {
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    std::uint32_t b[Traits::kMBlocks][4];
#pragma unroll
    for (int j = 0; j < Traits::kMBlocks; ++j) ptx::ldmatrix_x4(b[j], x + j * m_block_bytes + pair * 64);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int r = 0; r < Traits::kRowTiles; ++r) {
        const std::uint32_t word =
            pair == 0 ? (i == 0 ? slot.codes[r].x : slot.codes[r].y) : (i == 0 ? slot.codes[r].z : slot.codes[r].w);
        const Fragment f = scale_fragment(decode_word(word),
                                          decode_scale<Traits::kFormat>(slot.scales[r], 2 * pair + i, nvfp4_exponent));
#pragma unroll
        for (int j = 0; j < Traits::kMBlocks; ++j) ptx::mma_m16n8k16_bf16(acc[r][j], f.a, b[j][2 * i], b[j][2 * i + 1]);
      }
    }
  }
}

/// Writes one lane's accumulators of block `q` ([row tile, m block]) of a row group.
template <class Traits>
__device__ __forceinline__ void store_block(const StreamParams& p, int row_group, int q, int lane, const float4& sum) {
  const int row = q % Traits::kMBlocks * 8 + lane % 4 * 2;
  const int col = (row_group * Traits::kRowTiles + q / Traits::kMBlocks) * 16 + lane / 4;
  const std::int64_t at = row * p.args.ldo + col;
  auto store = [&](auto* out, auto convert) {
    out += at;
    if (row < p.args.m) {
      if (col < p.args.n) out[0] = convert(sum.x * p.factor);
      if (col + 8 < p.args.n) out[8] = convert(sum.z * p.factor);
    }
    if (row + 1 < p.args.m) {
      if (col < p.args.n) out[p.args.ldo] = convert(sum.y * p.factor);
      if (col + 8 < p.args.n) out[p.args.ldo + 8] = convert(sum.w * p.factor);
    }
  };
  if (p.args.out_f32) {
    store(static_cast<float*>(p.args.out), [](float v) { return v; });
  } else {
    store(static_cast<__nv_bfloat16*>(p.args.out), [](float v) { return __float2bfloat16_rn(v); });
  }
}

/// A row group's worth of partial sums in the workspace, behind the flags.
template <class Traits>
__device__ __forceinline__ float* partial(const StreamParams& p, int index) {
  return reinterpret_cast<float*>(static_cast<std::uint8_t*>(p.args.workspace) + kFlagBytes) +
         static_cast<std::size_t>(index) * Traits::kGroupValues;
}

__device__ __forceinline__ void add(float4& sum, const float4& t) {
  sum.x += t.x, sum.y += t.y, sum.z += t.z, sum.w += t.w;
}

/// A team's two reduce buffers; `turn` counts the segments that went through. One team barrier a segment is enough: a
/// buffer is written again two turns later, behind a barrier that its readers reach only after reading it.
template <class Traits>
struct StreamReduce {
  static constexpr std::uint32_t kBufferBytes = (Traits::kTeamWarps + 1) * Traits::kGroupValues * 4;
  static constexpr std::uint32_t kCarried = Traits::kTeamWarps * Traits::kGroupValues * 4;  // what earlier teams left
  std::uint32_t buffers;
  int barrier;  // the team's named barrier
  int turn = 0;

  /// Which of this turn's adders this warp is; kReducers and more: none. Another warp each time.
  __device__ __forceinline__ int reducer(int member) const {
    return (member + turn * Traits::kReducers) % Traits::kTeamWarps;
  }

  /// Whether `s` is the last part of a row group whose first part other teams have.
  static __device__ __forceinline__ bool completes(const StreamSchedule& schedule, const StreamSegment& s) {
    return s.k_begin > 0 && s.k_end == schedule.tiles;
  }

  /// Begins a segment that completes a row group: its adders fetch the first part's sums now, in team order, long
  /// before they are needed. Whoever left them did so as its first segment. Each lane reads back what it stored itself.
  __device__ __forceinline__ void begin(const StreamParams& p, const StreamSchedule& schedule, const StreamSegment& s,
                                        int team, int member, int lane PINCH_TRACE_PARAMETER) {
    const int adder = reducer(member);
    if (!completes(schedule, s) || adder >= Traits::kReducers) return;
    auto* flags = static_cast<std::uint32_t*>(p.args.workspace) + adder;
    const int first = schedule.first_team_of(s.row_group);
    {
      PINCH_TRACE_WAIT(StreamWait::kSums);
      for (int t = first; t < team && lane == 0; ++t) {
        if (!schedule.has_tiles(t)) continue;
        while (ptx::ld_acquire_gpu(flags + t * Traits::kReducers) == 0) {
        }
        flags[t * Traits::kReducers] = 0;
      }
    }
    __syncwarp();
#pragma unroll 1
    for (int q = adder; q < Traits::kBlocks; q += Traits::kReducers) {
      const int v = q * 32 + lane;
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 1
      for (int t = first; t < team; ++t) {
        if (schedule.has_tiles(t)) add(sum, ptx::ld_global_cg_v4(partial<Traits>(p, t) + v * 4));
      }
      ptx::st_shared_v4(buffers + (turn & 1) * kBufferBytes + kCarried + v * 16, sum.x, sum.y, sum.z, sum.w);
    }
  }

  /// Ends a segment: hands this warp's accumulators over and clears them; an adder also adds up the team's, in warp
  /// order.
  __device__ __forceinline__ void end(const StreamParams& p, const StreamSchedule& schedule, const StreamSegment& s,
                                      int split, int team, int member, int lane,
                                      float (&acc)[Traits::kRowTiles][Traits::kMBlocks][4] PINCH_TRACE_PARAMETER) {
    PINCH_TRACE_STEP(StreamRole::kJoin, s.row_group);
    const std::uint32_t buffer = buffers + (turn & 1) * kBufferBytes;
#pragma unroll
    for (int q = 0; q < Traits::kBlocks; ++q) {
      float(&v)[4] = acc[q / Traits::kMBlocks][q % Traits::kMBlocks];
      ptx::st_shared_v4(buffer + ((member * Traits::kBlocks + q) * 32 + lane) * 16, v[0], v[1], v[2], v[3]);
      v[0] = v[1] = v[2] = v[3] = 0.f;
    }
    {
      PINCH_TRACE_WAIT(StreamWait::kTeam);
      ptx::bar_sync(barrier, Traits::kTeamWarps * 32);
    }
    const int adder = reducer(member);
    ++turn;
    if (adder >= Traits::kReducers) return;
    const bool handed_on = s.k_end < schedule.tiles;
#pragma unroll 1
    for (int q = adder; q < Traits::kBlocks; q += Traits::kReducers) {
      const int v = q * 32 + lane;
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
      if (completes(schedule, s)) sum = ptx::ld_shared_v4(buffer + kCarried + v * 16);
#pragma unroll
      for (int w = 0; w < Traits::kTeamWarps; ++w) {
        add(sum, ptx::ld_shared_v4(buffer + (w * Traits::kGroupValues + v * 4) * 4));
      }
      if (p.split_log2 > 0 || handed_on) {
        const int index = handed_on ? team : split * schedule.row_groups + s.row_group;
        reinterpret_cast<float4*>(partial<Traits>(p, index))[v] = sum;
      } else {
        store_block<Traits>(p, s.row_group, q, lane, sum);
      }
    }
    if (handed_on) {
      __syncwarp();
      if (lane == 0)
        ptx::st_release_gpu(static_cast<std::uint32_t*>(p.args.workspace) + team * Traits::kReducers + adder, 1);
    }
  }
};

/// Adds the cluster's partial sums in block order; each block takes a share of the cluster's row groups.
template <class Traits>
__device__ __forceinline__ void reduce_cluster(const StreamParams& p, int cluster, int split) {
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  constexpr int kVectors = Traits::kGroupValues / 4;
  const int teams = static_cast<int>(blockDim.x) / (32 * Traits::kTeamWarps), splits = 1 << p.split_log2;
  for (int i = split * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);;
       i += splits * static_cast<int>(blockDim.x)) {
    const int local = i / kVectors, v = i % kVectors;
    const int round = local / teams * p.step + cluster * teams;
    if (round >= p.row_groups) break;
    const int row_group = round + local % teams;
    if (row_group >= p.row_groups) continue;
    float4 sum = ptx::ld_global_cg_v4(partial<Traits>(p, row_group) + v * 4);
    for (int s = 1; s < splits; ++s)
      add(sum, ptx::ld_global_cg_v4(partial<Traits>(p, s * p.row_groups + row_group) + v * 4));
    store_block<Traits>(p, row_group, v / 32, v % 32, sum);
  }
}

template <class Traits>
__global__ void __launch_bounds__(Traits::kMaxThreads, 1) stream_kernel(const __grid_constant__ StreamParams p) {
  constexpr int kTeamWarps = Traits::kTeamWarps, kInFlight = Traits::kInFlight;
  extern __shared__ __align__(128) std::uint8_t smem_raw[];
  const std::uint32_t smem = ptx::shared_address(smem_raw);
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);  // tells the compiler that it is uniform
  const int lane = threadIdx.x % 32;
  const int block_team = warp / kTeamWarps, member = warp % kTeamWarps;
  const int cluster = static_cast<int>(blockIdx.x) >> p.split_log2,
            split = static_cast<int>(blockIdx.x) & ((1 << p.split_log2) - 1);
  const int first_tile = split * p.col_tiles >> p.split_log2;
  const int tiles = ((split + 1) * p.col_tiles >> p.split_log2) - first_tile;
  const int team = cluster * static_cast<int>(blockDim.x / (32 * kTeamWarps)) + block_team;

  // First of all, since nothing can be multiplied before these bytes are here.
  if (threadIdx.x == blockDim.x - 32) prefetch_activations(p);
  const std::uint32_t x_smem = smem + p.x_offset_bytes;
  fetch_activations(p, x_smem, smem, first_tile, tiles);

  const StreamSchedule schedule(p, tiles, team);
  const StreamRing<Traits> ring(smem + p.ring_offset_bytes + warp * kInFlight * Traits::kSlotBytes, p.args.codes,
                                p.args.scales, lane);
  auto position = [&](const StreamSegment& s) {
    const int m16 = s.row_group * Traits::kRowTiles;
    return static_cast<std::uint32_t>((m16 / 4 * p.col_tiles + first_tile + s.k_begin + member) * 4 + m16 % 4);
  };
  int segment_index = 0;
  StreamSegment segment = schedule.segment(0);
  int k_tile = segment.k_begin + member;
  std::uint32_t m16_at = position(segment);
  auto fill_ring = [&](int begin, int end) {
#pragma unroll
    for (int u = begin; u < end; ++u) ring.fetch(m16_at, u, k_tile + u * kTeamWarps < segment.k_end);
  };
  // The activations come through the same queues as the weights: more weights before them and they come late (w16 r2
  // f4 at 4096x4096: 3.4 instead of 2.2 us into the kernel), and nothing is multiplied until then.
  fill_ring(0, kInFlight / 2);
  PINCH_TRACE_SCOPE();
  PINCH_TRACE_STEP(StreamRole::kStream, segment.row_group);
  PINCH_TRACE_NOW(asked);
  Activations activations = fetched_activations<kInFlight / 2>(p, smem);
  PINCH_TRACE_NOW(fetched);
  PINCH_TRACE_WAIT_AT(asked, fetched, StreamWait::kActivations);
  if (segment.k_end > 0) activations.await(min(k_tile, segment.k_end - 1) PINCH_TRACE_PASSED);
  fill_ring(kInFlight / 2, kInFlight);

  // ldmatrix.x4: lanes 8i..8i+7 give the rows of matrix i = columns 8i..8i+7 of the k16 pair.
  const int x_row = Traits::kMBlocks > 1 || lane % 8 < p.args.m ? lane % 8 : 0;
  // The shuffle changes nothing; it keeps the compiler from recomputing the address before every load (12
  // instructions).
  const std::uint32_t x = __shfl_sync(~0u, x_smem + x_row * p.x_stride_bytes + lane / 8 * 16, lane);
  const std::uint32_t m_block_bytes = 8 * p.x_stride_bytes;
  StreamReduce<Traits> reduce{smem + p.reduce_offset_bytes + block_team * 2 * StreamReduce<Traits>::kBufferBytes,
                              1 + block_team};

  float acc[Traits::kRowTiles][Traits::kMBlocks][4] = {};
  bool starts = true;
  while (segment.k_end > 0) {
    PINCH_TRACE_STEP(StreamRole::kStream, segment.row_group);
    if (starts) reduce.begin(p, schedule, segment, team, member, lane PINCH_TRACE_PASSED);
    StreamSegment next = segment;
    int next_k_tile = k_tile + kInFlight * kTeamWarps;
    std::uint32_t next_at = m16_at + kInFlight * kTeamWarps * 4;
    const bool last = next_k_tile >= segment.k_end;
    if (last) {
      next = schedule.segment(++segment_index);
      next_k_tile = next.k_begin + member;
      next_at = position(next);
    }
    const int left = segment.k_end - k_tile, next_left = next.k_end - next_k_tile;
    const std::uint32_t x_now = x + k_tile * (kTileCols * 2);
    activations.await(min(k_tile + (kInFlight - 1) * kTeamWarps, segment.k_end - 1) PINCH_TRACE_PASSED);
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      const StreamSlot<Traits> slot = ring.take(u PINCH_TRACE_PASSED);
      PINCH_TRACE_PHASE(StreamPhase::kMultiply);
      ring.fetch(next_at, u, u * kTeamWarps < next_left);
      if (u * kTeamWarps < left)
        multiply<Traits>(slot, x_now + u * kTeamWarps * kTileCols * 2, m_block_bytes, p.nvfp4_exponent, acc);
    }
    if (last) reduce.end(p, schedule, segment, split, team, member, lane, acc PINCH_TRACE_PASSED);
    segment = next;
    k_tile = next_k_tile;
    m16_at = next_at;
    starts = last;
  }
  activations.await(tiles - 1 PINCH_TRACE_PASSED);  // the other block's copies come here as long as this one lives
  if (p.split_log2 > 0) reduce_cluster<Traits>(p, cluster, split);
}

}  // namespace pinch::gemm_bf16_fp4::sm90
