// Launch knobs of the streaming kernel for small m. Host and device; plain data.
#pragma once

#include <cstdio>
#include <string>

namespace pinch::gemm_bf16_fp4::sm90 {

/// One launch of the streaming kernel. A warp works on `row_tiles` m16 tiles at a time (a row group); `k_warps` warps
/// form a team that shares a row group and deals its k tiles out among its members.
struct StreamTactic {
  int m_blocks = 1;       // blocks of 8 activation rows: 1, 2 or 4
  int row_tiles = 2;      // m16 tiles a warp feeds with one activation fragment: 1, 2 or 4
  int in_flight = 4;      // k tiles of a warp's ring, all of them loading
  int warps = 16;         // a block
  int blocks_per_sm = 1;  // resident
  int k_warps = 16;       // a team; divides warps
  int split_k = 1;        // blocks (a cluster) that share row groups: 1, 2, 4 or 8
  int balance = 0;  // 0: whole row groups dealt to teams; 1: equal numbers of k tiles, row groups cut where they fall

  friend constexpr bool operator==(const StreamTactic&, const StreamTactic&) = default;
};

/// Knobs that need code of their own; launches that differ elsewhere share an instance.
struct StreamInstance {
  int m_blocks;
  int row_tiles;
  int in_flight;
  int k_warps;
  int warps_per_sm;  // register budget: 65536 / (32 * warps_per_sm)

  friend constexpr bool operator==(const StreamInstance&, const StreamInstance&) = default;
};

constexpr StreamInstance instance_of(const StreamTactic& t) {
  return {.m_blocks = t.m_blocks,
          .row_tiles = t.row_tiles,
          .in_flight = t.in_flight,
          .k_warps = t.k_warps,
          .warps_per_sm = t.warps * t.blocks_per_sm};
}

/// Why a tactic can never run, or nullptr.
constexpr const char* illegal(const StreamTactic& t) {
  if (t.m_blocks != 1 && t.m_blocks != 2 && t.m_blocks != 4) return "m_blocks is not 1, 2 or 4";
  if (t.row_tiles != 1 && t.row_tiles != 2 && t.row_tiles != 4) return "row_tiles is not 1, 2 or 4";
  if (t.in_flight < 1 || t.in_flight > 8) return "in_flight is not in 1..8";
  if (t.warps < 1 || t.warps > 32) return "warps is not in 1..32";
  if (t.blocks_per_sm < 1 || t.warps * t.blocks_per_sm > 32)
    return "more than 32 warps an SM: fewer than 64 registers a thread";
  if (t.k_warps < 2 || t.warps % t.k_warps != 0) return "k_warps is less than 2 or does not divide warps";
  if (t.split_k != 1 && t.split_k != 2 && t.split_k != 4 && t.split_k != 8) return "split_k is not 1, 2, 4 or 8";
  if (t.warps / t.k_warps > 15) return "more than 15 teams: one named barrier each, and barrier 0 is the block's";
  if (t.balance != 0 && t.balance != 1) return "balance is not 0 or 1";
  if (t.balance != 0 && t.split_k != 1) return "balance cuts row groups itself: split_k must be 1";
  return nullptr;
}

/// "stream/m1/r2/f4/w16x1/t16/s1/b0": m_blocks, row_tiles, in_flight, warps x blocks_per_sm, k_warps, split_k, balance.
inline std::string to_string(const StreamTactic& t) {
  char s[96];
  std::snprintf(s, sizeof s, "stream/m%d/r%d/f%d/w%dx%d/t%d/s%d/b%d", t.m_blocks, t.row_tiles, t.in_flight, t.warps,
                t.blocks_per_sm, t.k_warps, t.split_k, t.balance);
  return s;
}

/// Inverse of to_string; false when `s` is no stream tactic.
inline bool parse(const char* s, StreamTactic* t) {
  int used = 0;
  return std::sscanf(s, "stream/m%d/r%d/f%d/w%dx%d/t%d/s%d/b%d%n", &t->m_blocks, &t->row_tiles, &t->in_flight,
                     &t->warps, &t->blocks_per_sm, &t->k_warps, &t->split_k, &t->balance, &used) == 8 &&
         s[used] == '\0';
}

}  // namespace pinch::gemm_bf16_fp4::sm90
