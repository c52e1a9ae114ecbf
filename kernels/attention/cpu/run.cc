#include "kernels/attention/cpu/run.h"

#include <algorithm>

#include "kernels/attention/cpu/run_body.h"

namespace pinch::attention {

RunLayout plan_run(const AttentionCpuTactic& tactic, const AttentionProblem& problem, int threads) {
  RunLayout layout;
  layout.tactic = tactic;
  layout.kernels = find_kernels(tactic.isa, {problem.pv, tactic.quant, tactic.exp2});
  const std::int64_t pairs = problem.batch * problem.kv_heads;
  const std::int64_t items = tactic.split == AttentionSplit::kHeads
                                 ? pairs
                                 : problem.heads / problem.kv_heads * ceil_div(problem.seq, tactic.tile_q);
  layout.workers = static_cast<int>(std::clamp<std::int64_t>(threads, 1, items));
  layout.packs = tactic.split == AttentionSplit::kHeads ? static_cast<std::size_t>(layout.workers) : 1;
  layout.padded_kv = round_up(problem.kv_seq, tactic.tile_kv);
  layout.rows = round_up(tactic.tile_q, layout.kernels.rows);
  const std::int64_t element = element_bytes(layout.kernels.element), dim = problem.dim;
  layout.pack_bytes = 2 * lines(layout.padded_kv * dim * element);
  layout.tile_bytes = lines(layout.rows * dim * element) + lines(layout.rows * tactic.tile_kv * 4) +
                      lines(layout.rows * tactic.tile_kv * element) + lines(layout.rows * dim * 4) +
                      3 * lines(layout.rows * 4);
  layout.workspace_bytes =
      layout.packs * layout.pack_bytes + static_cast<std::size_t>(layout.workers) * layout.tile_bytes;
  return layout;
}

void run(const RunLayout& layout, const AttentionProblem& problem, const AttentionInputs& in,
         const AttentionOutputs& out, std::byte* workspace) {
  run_call(layout, problem, in, out, workspace);
}

}  // namespace pinch::attention
