// Shared memory of the streaming kernel. Sizes follow the problem, so offsets are computed once, on the host.
//
//   barriers  mbarriers, one a part of the activations: it is there
//   x         [rows, k slice] bf16, rows 16 B apart modulo 128, so ldmatrix reads 8 rows without conflicts. Rows past m
//             hold nothing (with one m block they do not exist and row 0 is read instead): what they hold reaches only
//             columns of the accumulators that are never stored.
//   reduce    [team, 2, k_warps + 1, row_tiles * m_blocks, 32 lanes, 4] f32, double buffered; the last part is what
//             earlier teams left of a cut row group
//   ring      [warp, in_flight] slots of codes [row_tiles, 512 B] and scales [row_tiles, 64 or 32 B]
#pragma once

#include "kernels/gemm_bf16_fp4/sm90/prepared.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/tactic.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// Room for one m16 part of a k tile in a ring: 512 B of codes and up to 64 B of scales.
inline constexpr int kStreamSlotBytes = 576;

/// The copy engine brings activations in parts of 2^part_log2 k tiles, at most as many as there are barriers.
inline constexpr int kMostParts = 16;
inline constexpr int kLeastPartLog2 = 4;  // 2 KB a row

inline int stream_part_log2(int slice_tiles) {
  int log2 = kLeastPartLog2;
  while (slice_tiles > kMostParts << log2) ++log2;
  return log2;
}

struct StreamSmem {
  int x_offset_bytes;
  int x_stride_bytes;
  int part_log2;
  int reduce_offset_bytes;
  int ring_offset_bytes;
  int total_bytes;
};

inline StreamSmem stream_smem(const StreamTactic& t, int m, int k) {
  const int col_tiles = (k + kTileCols - 1) / kTileCols;
  const int slice_tiles = (col_tiles + t.split_k - 1) / t.split_k;
  const int rows = t.m_blocks == 1 ? m : 8 * t.m_blocks;
  auto round_up = [](int bytes) { return (bytes + 127) / 128 * 128; };
  StreamSmem s{};
  s.x_offset_bytes = kMostParts * 8;
  s.part_log2 = stream_part_log2(slice_tiles);
  s.x_stride_bytes = slice_tiles * kTileCols * 2 + 16;
  s.reduce_offset_bytes = round_up(s.x_offset_bytes + rows * s.x_stride_bytes);
  s.ring_offset_bytes = s.reduce_offset_bytes + 2 * (t.warps + t.warps / t.k_warps) * t.row_tiles * t.m_blocks * 512;
  s.total_bytes = s.ring_offset_bytes + t.warps * t.in_flight * t.row_tiles * kStreamSlotBytes;
  return s;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
