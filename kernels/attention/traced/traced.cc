#include "kernels/attention/traced/traced.h"

#include <vector>

#include "kernels/attention/cpu/run.h"
#include "kernels/attention/tactic.h"
#include "kernels/attention/traced/instances.h"
#include "kernels/attention/traced/names.h"
#include "pinch/machine.h"

namespace pinch::attention {

struct TracedAttention::State {
  AttentionProblem problem;
  RunLayout layout;
  std::vector<std::byte> workspace;
};

Result<TracedAttention> TracedAttention::create(const AttentionProblem& problem, const AttentionOptions& options) {
  PINCH_ASSIGN(plan, plan_attention(problem, options));  // refuses what it refuses, and picks the tactic
  PINCH_ASSIGN(index, parse_tactic(cpu_attention_family(), plan.tactic()));
  auto state = std::make_shared<State>();
  state->problem = problem;
  state->layout =
      plan_run(attention_cpu_tactics()[index], problem, options.threads > 0 ? options.threads : cpu_machine().cores);
  state->workspace.resize(state->layout.workspace_bytes + kAttentionAlignment);
  return TracedAttention(std::move(state));
}

std::string TracedAttention::tactic() const {
  return to_string(state_->layout.tactic);
}

void TracedAttention::run(trace::Level level, const AttentionInputs& in, const AttentionOutputs& out) {
  State& s = *state_;
  void* aligned = s.workspace.data();
  std::size_t space = s.workspace.size();
  auto* workspace = static_cast<std::byte*>(std::align(kAttentionAlignment, s.layout.workspace_bytes, aligned, space));
  const auto instance = level == trace::Level::kOff      ? attention::run
                        : level == trace::Level::kCoarse ? run_coarse
                                                         : run_detailed;
  instance(s.layout, s.problem, in, out, workspace);
}

trace::Names TracedAttention::names() {
  return {{{"pack"}, {"queries"}, {"scores", true}, {"softmax"}, {"product", true}, {"store"}, {"join"}},
          {{"packed", TraceRole::kPack}, {"other threads"}},
          {"keys", "values"}};
}

}  // namespace pinch::attention
