#include "pinch/attention.h"

#include <fmt/core.h>

#include <cstdlib>
#include <utility>

#include "kernels/attention/arguments.h"
#include "kernels/attention/cpu/run.h"
#include "kernels/attention/tactic.h"
#include "kernels/gemm_bf16_fp4/arguments.h"
#include "pinch/machine.h"

namespace pinch {
namespace detail {

struct AttentionPlanState {
  AttentionProblem problem;
  attention::RunLayout layout;
};

struct AttentionAccess {
  static AttentionPlan wrap(std::shared_ptr<const AttentionPlanState> state) { return AttentionPlan(std::move(state)); }
  static const AttentionPlanState& state(const AttentionPlan& plan) { return *plan.state_; }
};

}  // namespace detail

using detail::AttentionAccess;

AttentionPlan::AttentionPlan(std::shared_ptr<const detail::AttentionPlanState> state) : state_(std::move(state)) {}
std::string AttentionPlan::tactic() const {
  return to_string(state_->layout.tactic);
}
int AttentionPlan::threads() const {
  return state_->layout.workers;
}
const AttentionProblem& AttentionPlan::problem() const {
  return state_->problem;
}
std::size_t AttentionPlan::workspace_bytes() const {
  return state_->layout.workspace_bytes;
}

namespace {

Result<AttentionCpuTactic> choose_tactic(const std::string& name, const AttentionProblem& problem,
                                         const Resources& resources) {
  const AttentionTacticFamily& family = cpu_attention_family();
  if (name.empty()) {
    PINCH_ASSIGN(pick, default_tactic(family, problem, resources));
    return attention_cpu_tactics()[pick.index];
  }
  // Knobs that a GPU's tactics have: refused by name rather than as a misspelt one.
  for (const attention::Exp2 exp2 : {attention::Exp2::kHardware, attention::Exp2::kMixed}) {
    if (name.find(fmt::format(".{}", attention::to_string(exp2))) == std::string::npos) continue;
    return Error{ErrorCode::kIllegal,
                 fmt::format("exp2: {} needs an exponential unit, which a CPU has not; take poly3, poly4 or poly5",
                             attention::to_string(exp2)),
                 name};
  }
  PINCH_ASSIGN(index, parse_tactic(family, name));
  if (auto reason = family.illegal(index, problem, resources)) return Error{ErrorCode::kIllegal, *reason, name};
  return attention_cpu_tactics()[index];
}

}  // namespace

Result<AttentionPlan> plan_attention(const AttentionProblem& problem, const AttentionOptions& options) {
  PINCH_TRY(validate(problem));
  if (options.threads < 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}; give 1 or more, or 0 for every CPU the process may use", options.threads), "threads"};
  }
  PINCH_TRY(cpu_choice());
  Resources resources;
  resources.threads = options.threads > 0 ? options.threads : cpu_machine().cores;
  PINCH_ASSIGN(tactic, choose_tactic(options.tactic, problem, resources));
  auto state = std::make_shared<detail::AttentionPlanState>();
  state->problem = problem;
  state->layout = attention::plan_run(tactic, problem, resources.threads);
  return AttentionAccess::wrap(std::move(state));
}

Result<void> run_attention(const AttentionPlan& plan, const AttentionInputs& in, const AttentionOutputs& out,
                           std::span<std::byte> workspace) {
  const detail::AttentionPlanState& state = AttentionAccess::state(plan);
  PINCH_TRY(detail::check_inputs(state.problem, in));
  PINCH_TRY(detail::check_outputs(state.problem, in, out));
  PINCH_TRY(detail::check_workspace(workspace, plan.workspace_bytes(), kAttentionAlignment));
  attention::run(state.layout, state.problem, in, out, workspace.data());
  return {};
}

Result<void> attention_forward(const AttentionProblem& problem, const AttentionInputs& in, const AttentionOutputs& out,
                               const AttentionOptions& options) {
  PINCH_ASSIGN(plan, plan_attention(problem, options));
  const std::size_t bytes =
      (plan.workspace_bytes() + kAttentionAlignment - 1) / kAttentionAlignment * kAttentionAlignment;
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(kAttentionAlignment, bytes), std::free);
  if (memory == nullptr) {
    return Error{ErrorCode::kOutOfMemory, fmt::format("no memory for a workspace of {} bytes", bytes), ""};
  }
  return run_attention(plan, in, out, {static_cast<std::byte*>(memory.get()), bytes});
}

}  // namespace pinch
