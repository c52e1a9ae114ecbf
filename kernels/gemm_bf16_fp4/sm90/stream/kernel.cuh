// The streaming kernel for small m: weights go from global memory straight to registers, are decoded there and feed
// mma.sync as its A operand (16 output channels), with activations as B (8 rows of m) from shared memory.
//
// A warp keeps `in_flight` k tiles loading while it consumes as many, across the ends of row groups, so the memory pipe
// never drains. Partial sums meet in a fixed order: a team's warps through shared memory, a cluster's
// blocks through the workspace. No atomics; two runs give the same bits.
#pragma once

#include "kernels/common/cuda/ptx/barrier.cuh"
#include "kernels/common/cuda/ptx/ldst.cuh"
#include "kernels/common/cuda/ptx/mma.cuh"
#include "kernels/gemm_bf16_fp4/sm90/stream/smem.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

/// One k tile of a row group's weights, in registers.
template <class Traits>
struct StreamSlot {
  uint4 codes[Traits::kRowTiles];
  ScaleWords scales[Traits::kRowTiles];
};

/// This lane's bytes at tile 0 of the matrix: what differs between lanes is added once.
struct LaneWeights {
  const std::uint8_t* codes;
  const std::uint8_t* scales;
};

/// `in_flight` k tiles of one row group, `k_warps` apart: what a warp loads and consumes as one.
struct StreamChunk {
  int row_group;
  int k_tile;            // of its first tile, within the slice
  std::uint32_t m16_at;  // position of that tile's m16 part, in units of 512 B of codes
};

/// Loads tile `u` of a chunk; nothing when it lies past the slice or the last row group.
template <class Traits>
__device__ __forceinline__ void load(StreamSlot<Traits>& slot, const LaneWeights& weights, std::uint32_t m16_at, int u, bool inside) {
  constexpr int kScaleTile = scale_tile_bytes(Traits::kFormat);
  const std::uint8_t* codes = weights.codes + static_cast<std::size_t>(m16_at) * (kCodeTileBytes / 4) + u * Traits::kWarps * kCodeTileBytes;
  const std::uint8_t* scales = weights.scales + static_cast<std::size_t>(m16_at) * (kScaleTile / 4) + u * Traits::kWarps * kScaleTile;
#pragma unroll
  for (int r = 0; r < Traits::kRowTiles; ++r) {
    slot.codes[r] = ptx::ld_global_nc_no_allocate_v4(codes + r * (kCodeTileBytes / 4), inside);
    if constexpr (Traits::kFormat == Format::kNvfp4) {
      const uint2 v = ptx::ld_global_nc_no_allocate_v2(scales + r * (kScaleTile / 4), inside);
      slot.scales[r] = {{v.x, v.y}};
    } else {
      slot.scales[r] = {{ptx::ld_global_nc_no_allocate(scales + r * (kScaleTile / 4), inside), 0}};
    }
  }
}

/// Copies this block's slice of the activations to shared memory; columns past k become zeros.
__device__ __forceinline__ void stage_activations(const StreamParams& p, std::uint32_t smem, int first_tile, int tiles) {
  const int chunks = tiles * (kTileCols / 8);
  for (int row = 0; row < p.args.m; ++row) {
    const __nv_bfloat16* source = p.args.a + row * p.args.lda + first_tile * kTileCols;
    const std::uint32_t target = smem + row * p.x_stride_bytes;
    for (int c = threadIdx.x; c < chunks; c += blockDim.x) {
      const bool inside = first_tile * kTileCols + c * 8 < p.args.k;
      ptx::cp_async_cg_16(target + c * 16, inside ? source + c * 8 : p.args.a, inside ? 16 : 0);
    }
  }
}

/// acc += weights of one slot times the activations at `x`, a shared address a lane and m block.
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
    for (int r = 0; r < Traits::kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::uint32_t word = pair == 0 ? (i == 0 ? slot.codes[r].x : slot.codes[r].y)
                                             : (i == 0 ? slot.codes[r].z : slot.codes[r].w);
        const Fragment f = scale_fragment(decode_word(word), decode_scale<Traits::kFormat>(slot.scales[r], 2 * pair + i, nvfp4_exponent));
#pragma unroll
        for (int j = 0; j < Traits::kMBlocks; ++j) ptx::mma_m16n8k16_bf16(acc[r][j], f.a, b[j][2 * i], b[j][2 * i + 1]);
      }
    }
  }
}

/// Writes value `v` (0..kGroupValues-1: [row tile, m block, lane, register]) of a row group.
template <class Traits>
__device__ __forceinline__ void store_value(const StreamParams& p, int row_group, int v, float sum) {
  const int lane = v / 4 % 32, reg = v % 4, block = v / 128;
  const int row = (block % Traits::kMBlocks) * 8 + lane % 4 * 2 + reg % 2;
  const int col = (row_group * Traits::kRowTiles + block / Traits::kMBlocks) * 16 + lane / 4 + reg / 2 * 8;
  if (row >= p.args.m || col >= p.args.n) return;
  const float value = sum * p.args.acc_scale * p.args.alpha;
  const std::int64_t at = row * p.args.ldo + col;
  if (p.args.out_f32) {
    static_cast<float*>(p.args.out)[at] = value;
  } else {
    static_cast<__nv_bfloat16*>(p.args.out)[at] = __float2bfloat16_rn(value);
  }
}

/// Where a block of a cluster leaves its share of a row group's sums.
template <class Traits>
__device__ __forceinline__ float* partial(const StreamParams& p, int split, int row_group) {
  return p.args.workspace + (static_cast<std::size_t>(split) * static_cast<std::size_t>(p.row_groups) + static_cast<std::size_t>(row_group)) * Traits::kGroupValues;
}

/// Ends a row group: adds the team's accumulators in warp order, hands the sums on and clears them.
template <class Traits>
__device__ __forceinline__ void finish_row_group(const StreamParams& p, int row_group, int split, std::uint32_t reduce,
                                                 int team, int member, int lane,
                                                 float (&acc)[Traits::kRowTiles][Traits::kMBlocks][4]) {
  constexpr int kBlocks = Traits::kRowTiles * Traits::kMBlocks;
  if constexpr (Traits::kWarps == 1) {
#pragma unroll
    for (int q = 0; q < kBlocks; ++q) {
      float(&v)[4] = acc[q / Traits::kMBlocks][q % Traits::kMBlocks];
      if (p.split_k > 1) {
        reinterpret_cast<float4*>(partial<Traits>(p, split, row_group))[q * 32 + lane] = make_float4(v[0], v[1], v[2], v[3]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) store_value<Traits>(p, row_group, (q * 32 + lane) * 4 + i, v[i]);
      }
    }
  } else {
#pragma unroll
    for (int q = 0; q < kBlocks; ++q) {
      const float(&v)[4] = acc[q / Traits::kMBlocks][q % Traits::kMBlocks];
      ptx::st_shared_v4(reduce + ((member * kBlocks + q) * 32 + lane) * 16, v[0], v[1], v[2], v[3]);
    }
    ptx::barrier_cta_sync(1 + team, Traits::kWarps * 32);
    for (int v = member * 32 + lane; v < Traits::kGroupValues; v += Traits::kWarps * 32) {
      float sum = 0.f;
#pragma unroll
      for (int w = 0; w < Traits::kWarps; ++w) sum += ptx::ld_shared(reduce + (w * Traits::kGroupValues + v) * 4);
      if (p.split_k > 1) {
        partial<Traits>(p, split, row_group)[v] = sum;
      } else {
        store_value<Traits>(p, row_group, v, sum);
      }
    }
  }
#pragma unroll
  for (int q = 0; q < kBlocks; ++q)
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[q / Traits::kMBlocks][q % Traits::kMBlocks][i] = 0.f;
}

/// Adds the cluster's partial sums in block order; each block takes a share of the cluster's row groups.
template <class Traits>
__device__ __forceinline__ void reduce_cluster(const StreamParams& p, int cluster, int split) {
  ptx::barrier_cluster_arrive_release();
  ptx::barrier_cluster_wait_acquire();
  constexpr int kVectors = Traits::kGroupValues / 4;
  for (int i = split * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);; i += p.split_k * static_cast<int>(blockDim.x)) {
    const int local = i / kVectors, v = i % kVectors;
    const int row_group = local / p.teams * (p.clusters * p.teams) + cluster * p.teams + local % p.teams;
    // A team past the last row group may be followed by a real one only in an earlier round, so this ends the walk.
    if (local / p.teams * (p.clusters * p.teams) + cluster * p.teams >= p.row_groups) break;
    if (row_group >= p.row_groups) continue;
    float4 sum = ptx::ld_global_cg_v4(partial<Traits>(p, 0, row_group) + v * 4);
    for (int s = 1; s < p.split_k; ++s) {
      const float4 t = ptx::ld_global_cg_v4(partial<Traits>(p, s, row_group) + v * 4);
      sum.x += t.x, sum.y += t.y, sum.z += t.z, sum.w += t.w;
    }
    store_value<Traits>(p, row_group, v * 4 + 0, sum.x);
    store_value<Traits>(p, row_group, v * 4 + 1, sum.y);
    store_value<Traits>(p, row_group, v * 4 + 2, sum.z);
    store_value<Traits>(p, row_group, v * 4 + 3, sum.w);
  }
}

template <class Traits>
__global__ void __launch_bounds__(Traits::kMaxThreads, 1) stream_kernel(const __grid_constant__ StreamParams p) {
  constexpr int kTeamWarps = Traits::kWarps, kInFlight = Traits::kInFlight;
  extern __shared__ __align__(128) std::uint8_t smem_raw[];
  const std::uint32_t smem = ptx::cvta_to_shared(smem_raw);
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);  // tells the compiler that it is uniform
  const int lane = threadIdx.x % 32;
  const int team = warp / kTeamWarps, member = warp % kTeamWarps;
  const int cluster = blockIdx.x / p.split_k, split = blockIdx.x % p.split_k;
  const int first_tile = split * p.col_tiles / p.split_k;
  const int tiles = (split + 1) * p.col_tiles / p.split_k - first_tile;
  const int row_group_step = p.clusters * p.teams;

  const LaneWeights weights{p.args.codes + lane * 16, p.args.scales + lane / 4 * (scale_tile_bytes(Traits::kFormat) / 32)};
  auto chunk_at = [&](int row_group) {
    const int m16 = row_group * Traits::kRowTiles;
    return StreamChunk{row_group, member, static_cast<std::uint32_t>((m16 / 4 * p.col_tiles + first_tile + member) * 4 + m16 % 4)};
  };
  auto advance = [&](StreamChunk& c) {
    c.k_tile += kInFlight * kTeamWarps;
    c.m16_at += kInFlight * kTeamWarps * 4;
    if (c.k_tile >= tiles) c = chunk_at(c.row_group + row_group_step);
  };
  auto tiles_left = [&](const StreamChunk& c) { return c.row_group < p.row_groups ? tiles - c.k_tile : 0; };

  StreamChunk now = chunk_at(cluster * p.teams + team);
  StreamSlot<Traits> slots[kInFlight];
#pragma unroll
  for (int u = 0; u < kInFlight; ++u) load(slots[u], weights, now.m16_at, u, u * kTeamWarps < tiles_left(now));

  stage_activations(p, smem, first_tile, tiles);
  ptx::cp_async_wait_all();
  __syncthreads();

  // ldmatrix.x4: lanes 8i..8i+7 give the rows of matrix i = columns 8i..8i+7 of the k16 pair.
  const int x_row = Traits::kMBlocks > 1 || lane % 8 < p.args.m ? lane % 8 : 0;
  // The shuffle changes nothing; it keeps the compiler from recomputing the address before every load (12 instructions).
  const std::uint32_t x = __shfl_sync(~0u, smem + x_row * p.x_stride_bytes + lane / 8 * 16, lane);
  const std::uint32_t m_block_bytes = 8 * p.x_stride_bytes;
  constexpr std::uint32_t kReduceBytes = kTeamWarps * Traits::kGroupValues * 4;
  std::uint32_t reduce = smem + p.reduce_offset_bytes + team * 2 * kReduceBytes;
  std::uint32_t reduce_other = reduce + kReduceBytes;

  float acc[Traits::kRowTiles][Traits::kMBlocks][4] = {};
  while (now.row_group < p.row_groups) {
    StreamChunk next = now;
    advance(next);
    const int left = tiles - now.k_tile, next_left = tiles_left(next);
    const std::uint32_t x_now = x + now.k_tile * (kTileCols * 2);
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      if (u * kTeamWarps < left) {
        multiply<Traits>(slots[u], x_now + u * kTeamWarps * kTileCols * 2, m_block_bytes, p.nvfp4_exponent, acc);
      }
      load(slots[u], weights, next.m16_at, u, u * kTeamWarps < next_left);
    }
    if (next.row_group != now.row_group) {
      finish_row_group<Traits>(p, now.row_group, split, reduce, team, member, lane, acc);
      const std::uint32_t swap = reduce;
      reduce = reduce_other;
      reduce_other = swap;
    }
    now = next;
  }
  if (p.split_k > 1) reduce_cluster<Traits>(p, cluster, split);
}

}  // namespace pinch::gemm_bf16_fp4::sm90
