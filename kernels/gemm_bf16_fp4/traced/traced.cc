#include "kernels/gemm_bf16_fp4/traced/traced.h"

#include <cstdlib>

#include "kernels/gemm_bf16_fp4/cpu/run.h"
#include "kernels/gemm_bf16_fp4/traced/instances.h"
#include "kernels/gemm_bf16_fp4/traced/names.h"
#include "pinch/machine.h"
#include "pinch/tactics.h"

namespace pinch::detail {

struct TracedGemm::State {
  GemmProblem problem;
  RunLayout layout;
  std::shared_ptr<const PackedWeights> weights;
  std::vector<std::byte> workspace;
};

Result<TracedGemm> TracedGemm::create(const Fp4View& weights, std::int64_t m, const GemmOptions& options) {
  PINCH_ASSIGN(prepared, prepare_weights(weights));
  PINCH_ASSIGN(plan, plan_gemm(prepared, m, options));  // refuses what it refuses, and picks the tactic
  auto state = std::make_shared<State>();
  PINCH_ASSIGN(packed, pack_weights(weights));
  state->problem = plan.problem();
  state->weights = std::move(packed);
  PINCH_ASSIGN(index, parse_tactic(cpu_tactic_family(), plan.tactic()));
  const int threads = options.threads > 0 ? options.threads : cpu_machine().cores;
  state->layout = plan_run(cpu_tactics()[index], state->problem, threads);
  state->workspace.resize(state->layout.workspace_bytes + kWorkspaceAlignment);
  return TracedGemm(std::move(state));
}

std::string TracedGemm::tactic() const {
  return to_string(state_->layout.tactic);
}

int TracedGemm::threads() const {
  return state_->layout.workers;
}

void TracedGemm::run(trace::Level level, const Bf16* a, void* out) {
  State& s = *state_;
  void* aligned = s.workspace.data();
  std::size_t space = s.workspace.size();
  auto* workspace = static_cast<std::byte*>(std::align(kWorkspaceAlignment, s.layout.workspace_bytes, aligned, space));
  const auto instance = level == trace::Level::kOff      ? detail::run
                        : level == trace::Level::kCoarse ? run_coarse
                                                         : run_detailed;
  instance(s.layout, s.problem, *s.weights, a, s.problem.k, out, s.problem.n, workspace);
}

trace::Names TracedGemm::names() {
  return {{{"pack"}, {"decode"}, {"multiply", true}, {"store"}, {"stream", true}, {"join"}},
          {{"packed", GemmRole::kPack}, {"multiplied", GemmRole::kMultiply}, {"other threads"}},
          {"store"}};
}

}  // namespace pinch::detail
