#include "kernels/gemm_bf16_fp4/sm90/tactics.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

struct ListedTile {
  bool core;
  WgmmaTile tile;
};
struct ListedInstance {
  bool core;
  StreamInstance instance;
};

constexpr ListedTile kTiles[] = {
#define PINCH_WGMMA_TILE(set, ...) ListedTile{std::string_view(#set) == "core", WgmmaTile{__VA_ARGS__}},
#include "kernels/gemm_bf16_fp4/sm90/wgmma_tiles.inc"
#undef PINCH_WGMMA_TILE
};
constexpr ListedInstance kInstances[] = {
#define PINCH_STREAM_INSTANCE(set, ...) ListedInstance{std::string_view(#set) == "core", StreamInstance{__VA_ARGS__}},
#include "kernels/gemm_bf16_fp4/sm90/stream/instances.inc"
#undef PINCH_STREAM_INSTANCE
};

// The launch axes. On the 72 problems timed on an H200 (3 shapes, 12 m, both formats) these values lose nothing against
// splits 1 2 3 4 8 and stream-k x rasters 1 2 4 8 (geomean 1.0001, worst 1.002) and against blocks 1 2 4 x splits 1 2 4
// 8 x balance.
constexpr std::array kSplits{1, kStreamK, 2, 4, 8};
constexpr std::array kRasters{4, 1};  // of equals the first is taken; unsplit 4 / 1 is 1.000 (0.967 to 1.049)
struct StreamLaunch {
  int blocks_per_sm, split_k, balance;
};
constexpr std::array kStreamLaunches{StreamLaunch{1, 1, 0}, StreamLaunch{1, 1, 1}, StreamLaunch{1, 2, 0},
                                     StreamLaunch{2, 1, 0}};

std::vector<Tactic> list_tactics() {
  std::vector<Tactic> all;
  for (const ListedInstance& listed : kInstances) {
    const StreamInstance& i = listed.instance;
    for (const StreamLaunch& launch : kStreamLaunches) {
      if (i.warps_per_sm % launch.blocks_per_sm != 0) continue;
      const StreamTactic tactic{.m_blocks = i.m_blocks,
                                .row_tiles = i.row_tiles,
                                .in_flight = i.in_flight,
                                .warps = i.warps_per_sm / launch.blocks_per_sm,
                                .blocks_per_sm = launch.blocks_per_sm,
                                .k_warps = i.k_warps,
                                .split_k = launch.split_k,
                                .balance = launch.balance};
      if (illegal(tactic) == nullptr) all.emplace_back(tactic);
    }
  }
  for (const ListedTile& listed : kTiles) {
    for (const int split : kSplits) {
      for (const int raster : kRasters) {
        // Parts of k are for problems of fewer tiles than multiprocessors, whose order is soon told.
        if (split > 1 && raster != 1) continue;
        const WgmmaTactic tactic{listed.tile, split, raster};
        if (illegal(tactic).empty()) all.emplace_back(tactic);
      }
    }
  }
  return all;
}

}  // namespace

std::span<const Tactic> tactics() {
  static const std::vector<Tactic> all = list_tactics();
  return all;
}

std::string to_string(const Tactic& tactic) {
  return std::visit([](const auto& held) { return to_string(held); }, tactic);
}

bool in_core(const Tactic& tactic) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) {
    return std::any_of(std::begin(kTiles), std::end(kTiles),
                       [&](const ListedTile& listed) { return listed.core && listed.tile == wgmma->tile; });
  }
  const StreamInstance instance = instance_of(std::get<StreamTactic>(tactic));
  return std::any_of(std::begin(kInstances), std::end(kInstances),
                     [&](const ListedInstance& listed) { return listed.core && listed.instance == instance; });
}

Device sm90_device(int sm_count) {
  // An H200 of 132 multiprocessors holds 132, 66, 30 and 15 clusters of 1, 2, 4 and 8 blocks (decision 0060).
  return {.wgmma = {.sm_count = sm_count},
          .stream = {.sm_count = sm_count,
                     .smem_per_block_bytes = kMaxSharedBytes,
                     .smem_per_sm_bytes = kMaxSharedBytes + 1024,
                     .clusters = {sm_count, sm_count / 2, sm_count * 30 / 132, sm_count * 15 / 132}}};
}

std::string_view illegal_schedule(const WgmmaTactic& tactic, const Schedule& s) {
  if (too_many_parts(tactic.tile, s)) return "split_k makes more parts than the workspace has flags for";
  if (tactic.split_k != 1 && s.shared_tiles == 0) return "split_k leaves every tile whole: split_k 1 does the same";
  if (tactic.split_k > 1 && s.split < tactic.split_k) return "split_k makes more parts than k has iterations";
  if (tactic.raster_m > 1 && s.m_tiles == 1) return "raster_m walks one m tile: raster_m 1 does the same";
  return {};
}

std::string_view illegal(const Tactic& tactic, const WgmmaProblem& problem, const Device& device) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) {
    if (const auto why = illegal(*wgmma, problem, device.wgmma); !why.empty()) return why;
    return illegal_schedule(*wgmma, make_schedule(*wgmma, problem, device.wgmma));
  }
  const char* why =
      illegal(std::get<StreamTactic>(tactic), StreamProblem{problem.m, problem.n, problem.k}, device.stream);
  return why == nullptr ? std::string_view() : why;
}

std::size_t workspace_bytes(const Tactic& tactic, const WgmmaProblem& problem, const Device& device) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) return workspace_bytes(*wgmma, problem, device.wgmma);
  return stream_workspace_bytes(std::get<StreamTactic>(tactic), problem.n, device.stream);
}

}  // namespace pinch::gemm_bf16_fp4::sm90
