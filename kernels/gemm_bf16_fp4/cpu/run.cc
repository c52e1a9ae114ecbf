#include "kernels/gemm_bf16_fp4/cpu/run.h"

#include <algorithm>

#include "kernels/gemm_bf16_fp4/cpu/run_body.h"

namespace pinch::detail {
namespace {

// Bounds of the workspace, so that a call stays within its weights and 64 MiB: packed activations, and the sums that
// all workers together keep between blocks of k. Panels add at most 1 MiB a worker.
constexpr std::int64_t kPackedBytes = std::int64_t{20} << 20;
constexpr std::int64_t kSumsBytes = std::int64_t{8} << 20;
constexpr std::int64_t kLine = 64;

// The grid of workers that leaves the busiest one the least work; the more channels side by side the better among
// equals, because workers that share channels decode them twice.
void choose_grid(RunGrid& layout, int workers) {
  std::int64_t least = -1;
  for (int across = workers; across >= 1; --across) {
    const std::int64_t down = std::min<std::int64_t>(workers / across, layout.pass_tiles);
    const std::int64_t work = ceil_div(layout.tiles_n, across) * ceil_div(layout.pass_tiles, down);
    if (least >= 0 && work >= least) continue;
    least = work;
    layout.workers_n = across;
    layout.workers_m = static_cast<int>(down);
  }
}

}  // namespace

RunGrid plan_grid(const CpuTactic& tactic, const GemmProblem& problem, int threads) {
  RunGrid grid;
  const int available = tactic.workers == Workers::kOne ? 1 : std::max(1, threads);
  const bool panel = tactic.path == GemmPath::kPanel;
  grid.padded_k = round_up(problem.k, chunk_columns(problem.format));
  grid.tiles_m = ceil_div(problem.m, tactic.tile_m);
  grid.tiles_n = ceil_div(problem.n, tactic.tile_n);
  grid.packed_tile_bytes =
      static_cast<std::size_t>(grid.padded_k * tactic.tile_m * element_bytes(activations_of(tactic.isa)));
  grid.k_block = panel ? std::min<std::int64_t>(tactic.k_block, grid.padded_k) : grid.padded_k;

  grid.pass_tiles = std::min(grid.tiles_m, kPackedBytes / static_cast<std::int64_t>(grid.packed_tile_bytes));
  if (grid.k_block < grid.padded_k) {
    const std::int64_t tile_sums = std::int64_t{4} * tactic.tile_m * tactic.tile_n;
    grid.pass_tiles = std::min(grid.pass_tiles, kSumsBytes / (tile_sums * available));
  }
  grid.pass_tiles = std::max<std::int64_t>(grid.pass_tiles, 1);
  choose_grid(grid, available);

  const std::int64_t tiles_of_worker = ceil_div(grid.pass_tiles, grid.workers_m);
  const std::int64_t block = panel ? ceil_div(kRowBlock, tactic.tile_m) : 1;
  grid.block_tiles = tactic.raster == Raster::kAlongM ? tiles_of_worker : std::min(block, tiles_of_worker);
  return grid;
}

RunLayout plan_run(const CpuTactic& tactic, const GemmProblem& problem, int threads) {
  RunLayout layout;
  static_cast<RunGrid&>(layout) = plan_grid(tactic, problem, threads);
  layout.tactic = tactic;
  layout.kernels = find_kernels(tactic);
  layout.workers = layout.workers_n * layout.workers_m;
  if (tactic.path == GemmPath::kPanel) {
    const std::int64_t element = element_bytes(activations_of(tactic.isa));
    layout.panel_bytes = static_cast<std::size_t>(round_up(layout.k_block * tactic.tile_n * element, kLine));
  }
  const std::int64_t tiles_kept = layout.k_block < layout.padded_k ? layout.block_tiles : 1;
  layout.sums_bytes = static_cast<std::size_t>(round_up(tiles_kept * 4 * tactic.tile_m * tactic.tile_n, kLine));
  layout.workspace_bytes = static_cast<std::size_t>(round_up(
                               layout.pass_tiles * static_cast<std::int64_t>(layout.packed_tile_bytes), kLine)) +
                           static_cast<std::size_t>(layout.workers) * (layout.panel_bytes + layout.sums_bytes);
  return layout;
}

void run(const RunLayout& layout, const GemmProblem& problem, const PackedWeights& weights, const Bf16* a,
         std::int64_t lda, void* out, std::int64_t ldo, std::byte* workspace) {
  run_product(layout, problem, weights, a, lda, out, ldo, workspace);
}

int trace_level() {
  return PINCH_TRACE_LEVEL;
}

KernelSet find_kernels(const CpuTactic& t) {
  switch (t.isa) {
    case CpuIsa::kScalar:
      return scalar_kernels(t.path, t.tile_m, t.tile_n);
#if defined(__x86_64__)
    case CpuIsa::kAvx2:
      return avx2_kernels(t.path, t.tile_m, t.tile_n);
    case CpuIsa::kAvx512:
      return avx512_kernels(t.path, t.tile_m, t.tile_n);
    case CpuIsa::kAvx512Bf16:
      return avx512_bf16_kernels(t.path, t.tile_m, t.tile_n);
    case CpuIsa::kAmxBf16:
      return amx_bf16_kernels(t.path, t.tile_m, t.tile_n);
#endif
    default:
      return {};
  }
}

}  // namespace pinch::detail
