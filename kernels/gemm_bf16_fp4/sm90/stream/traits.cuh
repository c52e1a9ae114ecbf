// Types and sizes that follow from a format and a StreamInstance.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_bf16_fp4/sm90/decode.cuh"
#include "kernels/gemm_bf16_fp4/sm90/prepared.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/plan.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// One call: out[m, n] = (a[m, k] @ weights[n, k]^T) * 2^acc_exponent * alpha.
struct StreamArgs {
  const __nv_bfloat16* a;      // [m, k], 16-byte aligned
  std::int64_t lda;            // elements, a multiple of 8
  const std::uint8_t* codes;   // prepared layout, 16-byte aligned
  const std::uint8_t* scales;  // prepared layout, 16-byte aligned
  void* out;                   // [m, n], bf16 or f32
  std::int64_t ldo;            // elements
  void* workspace;             // stream_workspace_bytes(), 16-byte aligned; may be null when that is 0
  int m;
  int n;
  int k;
  float alpha;
  float acc_scale;  // 2^acc_exponent
  bool out_f32;
};

/// What the kernel receives: the call and the launch's derived numbers.
struct StreamParams {
  StreamArgs args;
  int col_tiles;
  int row_groups;  // of 16 * row_tiles rows
  int split_log2;
  int step;  // teams of all clusters
  bool balance;
  int team_tiles;  // balance: k tiles a team, and how many teams take one more
  int team_remainder;
  float factor;  // acc_scale * alpha
  Fetch fetch;
  int part_log2;       // k tiles of a part of the activations
  int x_stride_bytes;  // between staged activation rows
  int x_offset_bytes;
  int reduce_offset_bytes;
  int ring_offset_bytes;
  std::uint32_t nvfp4_exponent;  // kNvfp4ScaleExponent, opaque to the compiler (decode.cuh says why)
};

template <Format F, StreamInstance I>
struct StreamTraits {
  static constexpr Format kFormat = F;
  static constexpr int kMBlocks = I.m_blocks;
  static constexpr int kRowTiles = I.row_tiles;
  static constexpr int kInFlight = I.in_flight;
  static constexpr int kTeamWarps = I.k_warps;
  static constexpr int kMaxThreads = I.warps_per_sm * 32;
  static constexpr int kCodeTile = kCodeTileBytes;
  static constexpr int kScaleTile = F == Format::kNvfp4 ? 256 : 128;
  /// A slot of a warp's ring: codes [row_tiles, 512 B], then scales [row_tiles, 64 or 32 B].
  static constexpr int kSlotScales = kRowTiles * kCodeTile / 4;
  static constexpr int kSlotBytes = kSlotScales + kRowTiles * kScaleTile / 4;
  static_assert(kSlotBytes <= kRowTiles * kStreamSlotBytes);
  /// Accumulators of a row group: [row_tiles, m_blocks, 32 lanes, 4].
  static constexpr int kBlocks = kRowTiles * kMBlocks;
  static constexpr int kGroupValues = kBlocks * 128;
  /// Warps of a team that add up a row group, each its share of the blocks.
  static constexpr int kReducers = kBlocks < kTeamWarps ? kBlocks : kTeamWarps;
};

}  // namespace pinch::gemm_bf16_fp4::sm90
