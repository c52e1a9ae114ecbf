// The wgmma kernel's schedule, on the host: every k iteration of every tile is done once, and a worker that finishes a
// tile finds each of the others' parts in the order that it adds them.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/schedule.h"
#include "kernels/gemm_bf16_fp4/sm90/tactic.h"

using namespace pinch::gemm_bf16_fp4::sm90;

namespace {

int failures = 0;

void expect(bool condition, const char* claim, const Schedule& s) {
  if (condition) return;
  ++failures;
  std::printf("FAILED %s: m_tiles %d n_tiles %d k %d shared %d split %d workers %d\n", claim, s.m_tiles, s.n_tiles,
              s.k_iterations, s.shared_tiles, s.split, s.workers);
}

void check(const Schedule& s) {
  std::vector<int> done(static_cast<std::size_t>(s.tiles()) * static_cast<std::size_t>(s.k_iterations), 0);
  for (int worker = 0; worker < s.workers; ++worker) {
    SegmentWalker walker(s, worker);
    Segment segment{};
    int contributed = 0;
    while (walker.next(segment)) {
      expect(segment.k_begin < segment.k_end && segment.k_end <= s.k_iterations, "SegmentsAreNotEmpty", s);
      for (int k = segment.k_begin; k < segment.k_end; ++k)
        ++done[static_cast<std::size_t>(segment.tile) * static_cast<std::size_t>(s.k_iterations) + static_cast<std::size_t>(k)];
      if (segment.k_end < s.k_iterations) ++contributed;
      if (segment.k_end == s.k_iterations && segment.k_begin > 0) {
        int other = worker;
        do {
          --other;
          expect(other >= 0, "TheOwnerFindsItsContributors", s);
        } while (other > 0 && s.range_begin(other) > segment.tile * s.k_iterations);
      }
    }
    expect(contributed <= 1, "AWorkerContributesToOneTileAtMost", s);
  }
  for (const int times : done) expect(times == 1, "EveryIterationIsDoneOnce", s);
  for (int tile = 0; tile < s.tiles(); ++tile) {
    const TilePosition p = position_of(s, tile);
    expect(p.m_tile >= 0 && p.m_tile < s.m_tiles && p.n_tile >= 0 && p.n_tile < s.n_tiles, "PositionsAreInside", s);
  }
}

}  // namespace

int main() {
  for (int m_tiles : {1, 2, 3, 8, 17})
    for (int n_tiles : {1, 5, 32, 156})
      for (int k : {1, 7, 64})
        for (int raster : {1, 2, 8}) {
          Schedule s{m_tiles, n_tiles, k, raster < m_tiles ? raster : m_tiles, 0, 0, 0};
          const int tiles = s.tiles();
          s.workers = tiles < 132 ? tiles : 132;
          check(s);
          for (int split : {2, 3, 7}) {
            Schedule t = s;
            t.split = split < k ? split : k;
            t.shared_tiles = tiles;
            t.workers = tiles * t.split;
            check(t);
          }
          Schedule t = s;
          t.shared_tiles = tiles % 132 + (tiles > 132 ? 132 : 0);
          const int iterations = t.shared_tiles * k;
          if (iterations == 0) continue;
          t.workers = iterations < 132 ? iterations : 132;
          if (t.shared_tiles < tiles && t.workers < 132) continue;
          check(t);
        }
  const WgmmaTactic tactic{{.tile_n = 128, .tile_m = 64, .tile_k = 128, .stages = 7, .cluster_k = 2, .group = 4}, 1, 4};
  const auto parsed = parse_wgmma_tactic(to_string(tactic));
  if (!parsed || !(*parsed == tactic) || parse_wgmma_tactic("wgmma/n128") || parse_wgmma_tactic(to_string(tactic) + "x")) {
    ++failures;
    std::printf("FAILED ParseInvertsToString\n");
  }
  std::printf("%d failures\n", failures);
  return failures != 0;
}
