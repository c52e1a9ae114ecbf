// The CPU driver: how a problem is cut over workers and tiles, and the workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cpu/kernels.h"
#include "kernels/attention/tactic.h"
#include "pinch/attention.h"

namespace pinch::attention {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

/// Everything that depends on problem and tactic only.
struct RunLayout {
  AttentionCpuTactic tactic;
  Kernels kernels;
  int workers = 1;
  std::int64_t padded_kv = 0;  ///< keys, in whole tiles
  std::int64_t rows = 0;       ///< of a query tile, in whole blocks of the kernels' rows
  std::size_t pack_bytes = 0;  ///< keys and values of one kv head
  std::size_t tile_bytes = 0;  ///< of one worker: queries, scores, P, sums
  std::size_t packs = 1;       ///< one for all workers, or one each
  std::size_t workspace_bytes = 0;
};

/// `tactic` must be legal for the problem.
RunLayout plan_run(const AttentionCpuTactic& tactic, const AttentionProblem& problem, int threads);

/// One call. Arguments are checked by the caller; allocates nothing.
void run(const RunLayout& layout, const AttentionProblem& problem, const AttentionInputs& in,
         const AttentionOutputs& out, std::byte* workspace);

}  // namespace pinch::attention
