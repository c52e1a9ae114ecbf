// The driver's loops, with marks that say what each thread does (pinch/trace.h). run.cc compiles them at level 0, where
// the marks are nothing; traced/ compiles them again with the marks on.
#pragma once

#include <omp.h>

#include <algorithm>

#include "kernels/gemm_bf16_fp4/cpu/run.h"
#include "kernels/gemm_bf16_fp4/traced/names.h"
#include "pinch/trace.h"

namespace pinch::detail {
namespace {  // a copy for each file that compiles it

struct Range {
  std::int64_t begin, end;
};

// The part of 0..count that falls to `index` of `parts`: contiguous, sizes differ by one at most.
Range share(std::int64_t count, std::int64_t parts, std::int64_t index) {
  return {count * index / parts, count * (index + 1) / parts};
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
        PINCH_TRACE_STEP(GemmRole::kStream, block);
        layout.kernels.stream(span, packed + tile * static_cast<std::int64_t>(layout.packed_tile_bytes), sums);
        PINCH_TRACE_PHASE(GemmPhase::kStore);
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
        PINCH_TRACE_STEP(GemmRole::kDecode, block);
        layout.kernels.decode(strips(block, first, columns), t.tile_n, panel);
        for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
          PINCH_TRACE_STEP(GemmRole::kMultiply, tile);
          const std::byte* a =
              packed + tile * static_cast<std::int64_t>(layout.packed_tile_bytes) + first * column_bytes;
          // Sums of one tile stay in place when one block covers k.
          float* to = layout.k_block < padded_k ? sums + (tile - tiles.begin) * t.tile_m * t.tile_n : sums;
          layout.kernels.panel(a, panel, columns, first > 0, to);
          if (first + columns == padded_k) {
            PINCH_TRACE_STEP(GemmRole::kStore, tile);
            store(tile, block, to);
          }
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

void run_product(const RunLayout& layout, const GemmProblem& problem, const PackedWeights& weights, const Bf16* a,
                 std::int64_t lda, void* out, std::int64_t ldo, std::byte* workspace) {
  const CpuTactic& t = layout.tactic;
  const std::int64_t tiles_m = ceil_div(problem.m, t.tile_m), padded_k = weights.padded_k();
  const std::int64_t out_row_bytes = ldo * (problem.output == OutputType::kBf16 ? 2 : 4);
  const std::size_t packed_bytes =
      layout.workspace_bytes - static_cast<std::size_t>(layout.workers) * (layout.panel_bytes + layout.sums_bytes);
#pragma omp parallel num_threads(layout.workers)
  {
    // The runtime may grant fewer threads than asked for: each then takes several workers' parts.
    PINCH_TRACE_SCOPE();
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    for (std::int64_t pass = 0; pass < tiles_m; pass += layout.pass_tiles) {
      const std::int64_t tiles = std::min(layout.pass_tiles, tiles_m - pass);
      const std::int64_t first_row = pass * t.tile_m;
      PINCH_TRACE_STEP(GemmRole::kPack, pass);
#pragma omp for schedule(static) nowait
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const std::int64_t row = first_row + tile * t.tile_m;
        layout.kernels.pack(a + row * lda, lda, static_cast<int>(std::min<std::int64_t>(t.tile_m, problem.m - row)),
                            t.tile_m, problem.k, padded_k,
                            workspace + tile * static_cast<std::int64_t>(layout.packed_tile_bytes));
      }
      {
        PINCH_TRACE_WAIT(GemmWait::kPacked);
#pragma omp barrier
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
        PINCH_TRACE_WAIT(GemmWait::kMultiplied);
#pragma omp barrier
      }
    }
#if PINCH_TRACE_LEVEL >= 1
    {  // the region's own barrier, where a mark can see it
      PINCH_TRACE_STEP(GemmRole::kJoin, 0);
      PINCH_TRACE_WAIT(GemmWait::kOthers);
#pragma omp barrier
    }
#endif
  }
}

}  // namespace
}  // namespace pinch::detail
