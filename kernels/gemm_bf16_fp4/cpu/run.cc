#include "kernels/gemm_bf16_fp4/cpu/run.h"

#include <omp.h>

#include <algorithm>

namespace pinch::detail {
namespace {

// Bounds of the workspace, so that a call stays within its weights and 64 MiB: packed activations, and the sums that
// all workers together keep between blocks of k. Panels add at most 1 MiB a worker.
constexpr std::int64_t kPackedBytes = std::int64_t{20} << 20;
constexpr std::int64_t kSumsBytes = std::int64_t{8} << 20;
constexpr std::int64_t kLine = 64;

struct Range {
  std::int64_t begin, end;
};

// The part of 0..count that falls to `index` of `parts`: contiguous, sizes differ by one at most.
Range share(std::int64_t count, std::int64_t parts, std::int64_t index) {
  return {count * index / parts, count * (index + 1) / parts};
}

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

// One worker's part of one pass over rows.
struct Worker {
  const RunLayout& layout;
  const GemmProblem& problem;
  const PackedWeights& weights;
  const std::byte* packed;  // tiles of this pass
  std::byte* panel;
  float* sums;
  std::byte* out;  // first row of this pass
  std::int64_t rows, ldo;

  [[nodiscard]] StripSpan strips(std::int64_t block, std::int64_t first_column, std::int64_t columns) const {
    const std::int64_t first = block * (layout.tactic.tile_n / kStrip);
    const std::int64_t last = std::min(first + layout.tactic.tile_n / kStrip, ceil_div(problem.n, kStrip));
    const int chunk = chunk_columns(problem.format);
    return {weights.strip(first) + first_column / chunk * chunk_bytes(problem.format), weights.strip_bytes(),
            columns / chunk, static_cast<int>(last - first), problem.format};
  }

  void store(std::int64_t tile, std::int64_t block, const float* tile_sums) const {
    const CpuTactic& t = layout.tactic;
    const std::int64_t row = tile * t.tile_m, column = block * t.tile_n;
    const std::int64_t element = problem.output == OutputType::kBf16 ? 2 : 4;
    layout.kernels.store(tile_sums, t.tile_n, static_cast<int>(std::min<std::int64_t>(t.tile_m, rows - row)),
                         static_cast<int>(std::min<std::int64_t>(t.tile_n, problem.n - column)), weights.alpha,
                         problem.output, out + (row * ldo + column) * element, ldo);
  }

  void stream(Range tiles, Range blocks) const {
    const std::int64_t k = weights.padded_k();
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      const StripSpan span = strips(block, 0, k);
      for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
        layout.kernels.stream(span, packed + tile * static_cast<std::int64_t>(layout.packed_tile_bytes), sums);
        store(tile, block, sums);
      }
    }
  }

  void panels(Range tiles, Range blocks) const {
    const CpuTactic& t = layout.tactic;
    const std::int64_t padded_k = weights.padded_k();
    const std::int64_t column_bytes = element_bytes(activations_of(t.isa)) * t.tile_m;
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      for (std::int64_t first = 0; first < padded_k; first += layout.k_block) {
        const std::int64_t columns = std::min(layout.k_block, padded_k - first);
        layout.kernels.decode(strips(block, first, columns), t.tile_n, panel);
        for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
          const std::byte* a =
              packed + tile * static_cast<std::int64_t>(layout.packed_tile_bytes) + first * column_bytes;
          // Sums of one tile stay in place when one block covers k.
          float* to = layout.k_block < padded_k ? sums + (tile - tiles.begin) * t.tile_m * t.tile_n : sums;
          layout.kernels.panel(a, panel, columns, first > 0, to);
          if (first + columns == padded_k) store(tile, block, to);
        }
      }
    }
  }

  // All rows of the worker under each block of channels, or all of its channels over each block of rows.
  void operator()(Range tiles, Range blocks) const {
    for (std::int64_t first = tiles.begin; first < tiles.end; first += layout.block_tiles) {
      const Range rows_of_block{first, std::min(first + layout.block_tiles, tiles.end)};
      if (layout.tactic.path == GemmPath::kStream) {
        stream(rows_of_block, blocks);
      } else {
        panels(rows_of_block, blocks);
      }
    }
  }
};

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
  const CpuTactic& t = layout.tactic;
  const std::int64_t tiles_m = ceil_div(problem.m, t.tile_m), padded_k = weights.padded_k();
  const std::int64_t out_row_bytes = ldo * (problem.output == OutputType::kBf16 ? 2 : 4);
  const std::size_t packed_bytes =
      layout.workspace_bytes - static_cast<std::size_t>(layout.workers) * (layout.panel_bytes + layout.sums_bytes);
#pragma omp parallel num_threads(layout.workers)
  {
    // The runtime may grant fewer threads than asked for: each then takes several workers' parts.
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    for (std::int64_t pass = 0; pass < tiles_m; pass += layout.pass_tiles) {
      const std::int64_t tiles = std::min(layout.pass_tiles, tiles_m - pass);
      const std::int64_t first_row = pass * t.tile_m;
#pragma omp for schedule(static)
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const std::int64_t row = first_row + tile * t.tile_m;
        layout.kernels.pack(a + row * lda, lda, static_cast<int>(std::min<std::int64_t>(t.tile_m, problem.m - row)),
                            t.tile_m, problem.k, padded_k,
                            workspace + tile * static_cast<std::int64_t>(layout.packed_tile_bytes));
      }
      for (int w = thread; w < layout.workers; w += threads) {
        std::byte* own =
            workspace + packed_bytes + static_cast<std::size_t>(w) * (layout.panel_bytes + layout.sums_bytes);
        const Worker worker{layout,
                            problem,
                            weights,
                            workspace,
                            own,
                            reinterpret_cast<float*>(own + layout.panel_bytes),
                            static_cast<std::byte*>(out) + first_row * out_row_bytes,
                            problem.m - first_row,
                            ldo};
        worker(share(tiles, layout.workers_m, w / layout.workers_n),
               share(layout.tiles_n, layout.workers_n, w % layout.workers_n));
      }
      // The next pass overwrites the packed activations.
      if (pass + tiles < tiles_m) {
#pragma omp barrier
      }
    }
  }
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
