// What the host decides before a launch of the wgmma kernel: how the tiles of a problem are dealt out, the workspace
// that this takes, and why a tactic cannot run a problem. No CUDA header, so that all of it is tested without a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "kernels/gemm_bf16_fp4/sm90/schedule.h"
#include "kernels/gemm_bf16_fp4/sm90/tactic.h"
#include "kernels/gemm_bf16_fp4/sm90/workspace.h"

namespace pinch::gemm_bf16_fp4::sm90 {

// out[m, n] = a[m, k] x w[n, k]^T
struct WgmmaProblem {
  int m;
  int n;
  int k;
};

// One call. Pointers are device pointers; strides count elements.
struct WgmmaArgs {
  const void* a;  // bf16 [m, a_stride]
  int a_stride;
  const std::uint8_t* codes;  // prepared.h
  const std::uint8_t* scales;
  float alpha;
  int acc_exponent;  // of the prepared header
  void* out;         // [m, out_stride]
  int out_stride;
  int m;
  int n;
  int k;
  void* workspace;  // workspace_bytes() of them, zeroed once before the first launch, then left alone between launches
};

struct WgmmaDevice {
  int sm_count;
};

// A stream-k worker's share of k: below, the reduction costs more than it saves.
inline constexpr int kFewestColumns = 256;

// Of a legal tactic, problem and device.
inline Schedule make_schedule(const WgmmaTactic& tactic, const WgmmaProblem& problem, const WgmmaDevice& device) {
  const WgmmaTile& tile = tactic.tile;
  const auto ceil_div = [](int a, int b) { return a / b + (a % b != 0); };
  Schedule s{};
  s.m_tiles = ceil_div(problem.m, tile.tile_m);
  s.n_tiles = ceil_div(problem.n, tile.tile_n * tile.cluster_n);
  s.k_iterations = ceil_div(problem.k, tile.tile_k);
  s.raster_m = std::min(tactic.raster_m, s.m_tiles);
  const int capacity = device.sm_count / (tile.cluster_n * tile.cluster_k);  // clusters that run at once
  const int tiles = s.tiles();
  s.workers = std::min(tiles, capacity);
  if (tile.cluster_k > 1) {
    s.workers = tiles;  // a cluster ends with its tile: what it receives has one use
  } else if (tactic.split_k > 1 && s.k_iterations > 1) {
    s.split = std::min(tactic.split_k, s.k_iterations);
    s.shared_tiles = tiles;
    s.workers = tiles * s.split;
  } else if (tactic.split_k == kStreamK && tiles % capacity != 0) {
    // Whole waves stay whole but for the last, which is cut together with the tiles left over.
    const int waves = tiles / capacity;
    s.shared_tiles = tiles - std::max(0, waves - 1) * capacity;
    const std::int64_t iterations = static_cast<std::int64_t>(s.shared_tiles) * s.k_iterations;
    s.workers = static_cast<int>(std::clamp<std::int64_t>(iterations * tile.tile_k / kFewestColumns, 1, capacity));
  }
  return s;
}

// CTAs in the grid.
inline int grid_ctas(const WgmmaTile& tile, const Schedule& s) {
  return s.workers * tile.cluster_n * tile.cluster_k;
}

// The kernel counts CTAs and k iterations in int32.
inline bool too_many_tiles(const WgmmaTile& tile, const WgmmaProblem& problem) {
  const auto count = [](int extent, int step) { return static_cast<std::int64_t>(extent / step) + 1; };
  const std::int64_t tiles = count(problem.m, tile.tile_m) * count(problem.n, tile.tile_n);
  return tiles > (1 << 25) || tiles * count(problem.k, tile.tile_k) > std::numeric_limits<std::int32_t>::max();
}

// Each warpgroup of each worker's CTAs has one flag.
inline bool too_many_parts(const WgmmaTile& tile, const Schedule& s) {
  return s.shared_tiles > 0 && static_cast<std::size_t>(grid_ctas(tile, s)) * static_cast<std::size_t>(tile.consumers) *
                                       sizeof(std::uint32_t) >
                                   kFlagBytes;
}

// Why a tactic cannot run a problem on a device; empty if it can. Each text is the rule's name in sweeps.
inline std::string_view illegal(const WgmmaTactic& tactic, const WgmmaProblem& problem, const WgmmaDevice& device) {
  if (const auto why = illegal(tactic); !why.empty()) return why;
  const WgmmaTile& tile = tactic.tile;
  if (problem.m < 1) return "m must be at least 1";
  if (problem.n < 8 || problem.n % 8 != 0) return "n must be a positive multiple of 8";
  if (problem.k < 32 || problem.k % 32 != 0) return "k must be a positive multiple of 32";
  if (device.sm_count < tile.cluster_n * tile.cluster_k) return "the device has fewer SMs than a cluster has CTAs";
  if (too_many_tiles(tile, problem)) return "m, n and k give more than 2^25 tiles or 2^31 k iterations";
  if (too_many_parts(tile, make_schedule(tactic, problem, device)))
    return "split_k makes more parts than the workspace has flags for";
  return {};
}

// Of a legal tactic, problem and device: flags, then one output tile in FP32 for each CTA that shares tiles. 0: none.
inline std::size_t workspace_bytes(const WgmmaTactic& tactic, const WgmmaProblem& problem, const WgmmaDevice& device) {
  const Schedule s = make_schedule(tactic, problem, device);
  if (s.shared_tiles == 0) return 0;
  return kFlagBytes + static_cast<std::size_t>(grid_ctas(tactic.tile, s)) *
                          static_cast<std::size_t>(tactic.tile.tile_n) * static_cast<std::size_t>(tactic.tile.tile_m) *
                          sizeof(float);
}

}  // namespace pinch::gemm_bf16_fp4::sm90
