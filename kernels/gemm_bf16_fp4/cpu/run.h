// Runs one tactic: how the work is cut and where it keeps its buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/packed.h"

namespace pinch::detail {

/// How a product is cut: what the cost model needs to know of a run.
struct RunGrid {
  std::int64_t padded_k = 0;
  std::int64_t tiles_m = 0;          // row tiles
  std::int64_t tiles_n = 0;          // blocks of tile_n channels
  std::int64_t pass_tiles = 0;       // row tiles whose packed activations fit the workspace at once
  std::int64_t block_tiles = 0;      // row tiles that share one decoded panel
  std::int64_t k_block = 0;          // columns of a panel, at most the padded k
  int workers_n = 1, workers_m = 1;  // the grid of workers over channels and rows of a pass

  std::size_t packed_tile_bytes = 0;  // activations of one row tile
};

/// Everything that depends on shapes and tactic only.
struct RunLayout : RunGrid {
  CpuTactic tactic;
  KernelSet kernels;
  int workers = 1;

  std::size_t panel_bytes = 0;      // of one worker
  std::size_t sums_bytes = 0;       // of one worker
  std::size_t workspace_bytes = 0;  // packed activations of a pass, then each worker's panel and sums
};

/// `tactic` must be legal for the problem.
RunGrid plan_grid(const CpuTactic& tactic, const GemmProblem& problem, int threads);
RunLayout plan_run(const CpuTactic& tactic, const GemmProblem& problem, int threads);

/// One product. Arguments are checked by the caller; allocates nothing.
void run(const RunLayout& layout, const GemmProblem& problem, const PackedWeights& weights, const Bf16* a,
         std::int64_t lda, void* out, std::int64_t ldo, std::byte* workspace);

/// PINCH_TRACE_LEVEL that run() was compiled with.
int trace_level();

}  // namespace pinch::detail
