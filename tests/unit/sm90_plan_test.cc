// What the host decides for the sm_90a kernels, without a GPU: the schedule of the wgmma kernel (every k iteration of
// every tile is done once, and a worker that finishes a tile finds each of the others' parts in the order that it adds
// them), the rules that refuse a tactic, and the tactics' names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/plan.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/plan.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/tactic.h"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr WgmmaTile kTiles[] = {
#define PINCH_WGMMA_TILE(set, ...) WgmmaTile{__VA_ARGS__},
#include "kernels/gemm_bf16_fp4/sm90/wgmma_tiles.inc"
#undef PINCH_WGMMA_TILE
};
constexpr StreamInstance kStreamInstances[] = {
#define PINCH_STREAM_INSTANCE(set, ...) StreamInstance{__VA_ARGS__},
#include "kernels/gemm_bf16_fp4/sm90/stream/instances.inc"
#undef PINCH_STREAM_INSTANCE
};
constexpr WgmmaDevice kH200{.sm_count = 132};
constexpr WgmmaTactic kSmallTile{{.tile_n = 256, .tile_m = 16, .tile_k = 128, .stages = 8, .consumers = 4, .group = 4}};

// What is wrong with a schedule; empty if nothing is.
std::string faults(const Schedule& s) {
  std::vector<int> done(static_cast<std::size_t>(s.tiles()) * static_cast<std::size_t>(s.k_iterations), 0);
  for (int worker = 0; worker < s.workers; ++worker) {
    SegmentWalker walker(s, worker);
    Segment segment{};
    int contributed = 0;
    while (walker.next(segment)) {
      if (segment.k_begin >= segment.k_end || segment.k_end > s.k_iterations) return "a segment is empty or too long";
      for (int k = segment.k_begin; k < segment.k_end; ++k)
        ++done[static_cast<std::size_t>(segment.tile) * static_cast<std::size_t>(s.k_iterations) +
               static_cast<std::size_t>(k)];
      if (segment.k_end < s.k_iterations) ++contributed;
      if (segment.k_end == s.k_iterations && segment.k_begin > 0) {
        int other = worker;
        do {
          if (--other < 0) return "an owner does not find its contributors";
        } while (other > 0 && s.range_begin(other) > segment.tile * s.k_iterations);
      }
    }
    if (contributed > 1) return "a worker contributes to more than one tile";
  }
  for (const int times : done)
    if (times != 1) return "an iteration is done " + std::to_string(times) + " times";
  for (int tile = 0; tile < s.tiles(); ++tile) {
    const TilePosition p = position_of(s, tile);
    if (p.m_tile < 0 || p.m_tile >= s.m_tiles || p.n_tile < 0 || p.n_tile >= s.n_tiles) return "a position is outside";
  }
  return {};
}

TEST(WgmmaSchedule, DoesEveryIterationOnceForEveryTileSplitAndRaster) {
  for (const WgmmaTile& tile : kTiles)
    for (const WgmmaProblem& problem :
         {WgmmaProblem{1, 8, 32}, WgmmaProblem{17, 4096, 4096}, WgmmaProblem{130, 1544, 736},
          WgmmaProblem{512, 20000, 320}, WgmmaProblem{1000, 648, 4128}})
      for (const int split : {kStreamK, 1, 2, 3, 8})
        for (const int raster : {1, 3, 8}) {
          const WgmmaTactic tactic{tile, split, raster};
          if (!illegal(tactic, problem, kH200).empty()) continue;
          EXPECT_THAT(faults(make_schedule(tactic, problem, kH200)), IsEmpty())
              << to_string(tactic) << " m=" << problem.m << " n=" << problem.n << " k=" << problem.k;
        }
}

TEST(WgmmaSchedule, CheckSeesAWorkerTooFew) {
  WgmmaTactic tactic = kSmallTile;
  tactic.split_k = 3;
  Schedule s = make_schedule(tactic, {16, 4096, 4096}, kH200);
  ASSERT_THAT(faults(s), IsEmpty());
  --s.workers;
  EXPECT_THAT(faults(s), HasSubstr("done 0 times"));
}

TEST(WgmmaLegality, EveryListedTileIsLegal) {
  for (const WgmmaTile& tile : kTiles) EXPECT_EQ(illegal(tile), "") << to_string(WgmmaTactic{tile});
}

TEST(WgmmaLegality, TheUnsplitScheduleIsLegalForEveryProblem) {
  for (const WgmmaTile& tile : kTiles)
    for (const int m : {1, 3, 17, 512, 8192})
      for (const int n : {8, 20000, 151936})
        for (const int k : {32, 320, 28672})
          EXPECT_EQ(illegal(WgmmaTactic{tile}, WgmmaProblem{m, n, k}, kH200), "") << to_string(WgmmaTactic{tile});
}

TEST(WgmmaLegality, MorePartsThanFlagsIsNamed) {
  WgmmaTactic tactic = kSmallTile;
  tactic.split_k = 2;  // 32 x 79 tiles x 2 parts x 4 warpgroups x 4 bytes = 80896 of 65536 flag bytes
  EXPECT_THAT(illegal(tactic, {512, 20000, 320}, kH200), HasSubstr("flags"));
  EXPECT_EQ(illegal(tactic, {400, 20000, 320}, kH200), "");  // 25 x 79: 63200 bytes
}

TEST(WgmmaLegality, NamesTheRuleOfEachRefusal) {
  const WgmmaTactic tactic{kTiles[0]};
  EXPECT_THAT(illegal(tactic, {0, 8, 32}, kH200), HasSubstr("m must"));
  EXPECT_THAT(illegal(tactic, {1, 12, 32}, kH200), HasSubstr("n must"));
  EXPECT_THAT(illegal(tactic, {1, 8, 40}, kH200), HasSubstr("k must"));
  EXPECT_THAT(illegal(tactic, {1 << 30, 1 << 24, 32}, kH200), HasSubstr("tiles"));
  EXPECT_THAT(illegal(WgmmaTactic{{.cluster_n = 2}}, {1, 8, 32}, {.sm_count = 1}), HasSubstr("SMs"));
  EXPECT_THAT(illegal(WgmmaTactic{{.tile_n = 96}}, {1, 8, 32}, kH200), HasSubstr("tile_n"));
  EXPECT_THAT(illegal(WgmmaTactic{{.tile_m = 64, .cluster_k = 2}, 2}, {1, 8, 32}, kH200), HasSubstr("split_k"));
}

TEST(WgmmaWorkspace, HoldsFlagsAndATileForEachSharingCta) {
  WgmmaTactic tactic = kSmallTile;
  EXPECT_EQ(workspace_bytes(tactic, {16, 4096, 4096}, kH200), 0u);
  tactic.split_k = 4;  // 16 tiles x 4 parts
  EXPECT_EQ(workspace_bytes(tactic, {16, 4096, 4096}, kH200), 65536u + 64u * 256u * 16u * 4u);
}

TEST(WgmmaTactics, ParseInvertsToString) {
  for (const WgmmaTile& tile : kTiles)
    for (const int split : {kStreamK, 1, 4}) {
      const WgmmaTactic tactic{tile, split, 4};
      EXPECT_EQ(parse_wgmma_tactic(to_string(tactic)), tactic) << to_string(tactic);
    }
  EXPECT_FALSE(parse_wgmma_tactic("wgmma/n128"));
  EXPECT_FALSE(parse_wgmma_tactic(to_string(kSmallTile) + "x"));
}

TEST(StreamTactics, EveryListedInstanceHasALegalTacticThatParsesBack) {
  for (const StreamInstance& instance : kStreamInstances) {
    const StreamTactic tactic{.m_blocks = instance.m_blocks,
                              .row_tiles = instance.row_tiles,
                              .in_flight = instance.in_flight,
                              .warps = instance.warps_per_sm,
                              .blocks_per_sm = 1,
                              .k_warps = instance.k_warps,
                              .split_k = 1,
                              .balance = 0};
    EXPECT_STREQ(illegal(tactic), nullptr) << to_string(tactic);
    EXPECT_EQ(instance_of(tactic), instance);
    StreamTactic parsed;
    ASSERT_TRUE(parse(to_string(tactic).c_str(), &parsed)) << to_string(tactic);
    EXPECT_EQ(parsed, tactic);
  }
  StreamTactic parsed;
  EXPECT_FALSE(parse("stream/m1/r1", &parsed));
}

TEST(StreamActivations, AreCopiedByThreadsByTheEngineOrByTwoBlocks) {
  const StreamDevice h200{132, kMaxSharedBytes, kMaxSharedBytes + 1024, {132, 66, 30, 15}};
  const StreamDevice without_clusters{132, kMaxSharedBytes, kMaxSharedBytes + 1024, {132, 0, 0, 0}};
  const StreamTactic whole, split{.split_k = 2};
  EXPECT_EQ(fetch_of(whole, {1, 4096, 8160}, h200), Fetch::kThreads);  // 16,320 bytes
  EXPECT_EQ(fetch_of(whole, {1, 4096, 8192}, h200), Fetch::kTwoBlocks);
  EXPECT_EQ(fetch_of(whole, {2, 4096, 4096}, h200), Fetch::kTwoBlocks);
  EXPECT_EQ(fetch_of(split, {2, 4096, 4096}, h200), Fetch::kCopyEngine);  // its cluster shares row groups
  EXPECT_EQ(fetch_of(whole, {2, 4096, 4096}, without_clusters), Fetch::kCopyEngine);
  EXPECT_EQ(fetch_of(whole, {1, 4096, 32}, without_clusters), Fetch::kThreads);
}

TEST(StreamActivations, PartsAreTheLeastThatTheBarriersCount) {
  for (int tiles = 1; tiles <= 4096; ++tiles) {
    const int log2 = stream_part_log2(tiles);
    ASSERT_LE((tiles - 1) >> log2, kMostParts - 1) << tiles;
    ASSERT_TRUE(log2 == kLeastPartLog2 || (tiles - 1) >> (log2 - 1) >= kMostParts) << tiles;
  }
}

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90
