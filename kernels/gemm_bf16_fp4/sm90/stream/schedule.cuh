// Which k tiles of which row groups a team works on, and in which order.
#pragma once

#include "kernels/gemm_bf16_fp4/sm90/stream/traits.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

/// A run of k tiles of one row group, within the block's slice of k. k_end = 0 says that there is no more.
struct StreamSegment {
  int row_group;
  int k_begin;
  int k_end;
};

struct StreamSchedule {
  int tiles;  // k tiles of the slice
  int row_groups;
  int team;
  int step;
  bool balance;
  // Balance: this team's k tiles are [begin, end) of all row groups laid end to end, in row groups lowest..highest.
  int team_tiles;
  int team_remainder;
  int begin = 0;
  int end = 0;
  int lowest = 0;
  int highest = -1;

  __device__ __forceinline__ StreamSchedule(const StreamParams& p, int slice_tiles, int global_team)
      : tiles(slice_tiles),
        row_groups(p.row_groups),
        team(global_team),
        step(p.step),
        balance(p.balance),
        team_tiles(p.team_tiles),
        team_remainder(p.team_remainder) {
    if (!balance) return;
    begin = begin_of(team);
    end = begin_of(team + 1);
    lowest = begin / tiles;
    highest = end > begin ? (end - 1) / tiles : lowest - 1;
  }

  __device__ __forceinline__ int begin_of(int t) const { return t * team_tiles + min(t, team_remainder); }
  __device__ __forceinline__ bool has_tiles(int t) const { return begin_of(t) < begin_of(t + 1); }

  /// The team that holds the first k tile of a row group that this team finishes.
  __device__ __forceinline__ int first_team_of(int row_group) const {
    int t = team;
    while (begin_of(t) > row_group * tiles) --t;
    return t;
  }

  /// Whole row groups go to teams in turn. Cut ones: the row group that a later team finishes comes first, so that its
  /// partial sum is there long before that team wants it, as its last. Teams wait for lower-numbered ones only, whose
  /// blocks started no later, so nothing deadlocks however few blocks are resident.
  __device__ __forceinline__ StreamSegment segment(int i) const {
    if (!balance) {
      const int g = team + i * step;
      return {g, 0, g < row_groups ? tiles : 0};
    }
    if (i > highest - lowest) return {0, 0, 0};
    const bool handed_on = end < (highest + 1) * tiles;
    int g = lowest + i + (handed_on ? 0 : 1);
    if (handed_on && i == 0) {
      g = highest;
    } else if (i == highest - lowest) {
      g = lowest;
    }
    return {g, max(begin - g * tiles, 0), min(end - g * tiles, tiles)};
  }
};

}  // namespace pinch::gemm_bf16_fp4::sm90
