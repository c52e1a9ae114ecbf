#include "pinch/gemm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kernels/gemm_bf16_fp4/arguments.h"
#include "kernels/gemm_bf16_fp4/cpu/run.h"
#include "kernels/gemm_bf16_fp4/packed.h"
#include "kernels/gemm_bf16_fp4/sm90/backend.h"
#include "kernels/gemm_bf16_fp4/tactic.h"
#include "pinch/machine.h"

namespace pinch {
namespace detail {

struct GemmPlanState {
  GemmProblem problem;
  RunLayout layout;
  std::shared_ptr<const PackedWeights> weights;
};

struct GemmAccess {
  static PreparedWeights wrap(std::shared_ptr<const PackedWeights> packed) {
    return PreparedWeights(std::move(packed));
  }
  static GemmPlan wrap(std::shared_ptr<const GemmPlanState> state) { return GemmPlan(std::move(state)); }
  static const std::shared_ptr<const PackedWeights>& packed(const PreparedWeights& weights) { return weights.packed_; }
  static const GemmPlanState& state(const GemmPlan& plan) { return *plan.state_; }
};

}  // namespace detail

using detail::GemmAccess;

PreparedWeights::PreparedWeights(std::shared_ptr<const detail::PackedWeights> packed) : packed_(std::move(packed)) {}
PreparedWeights::PreparedWeights(PreparedWeights&&) noexcept = default;
PreparedWeights& PreparedWeights::operator=(PreparedWeights&&) noexcept = default;
PreparedWeights::~PreparedWeights() = default;

std::int64_t PreparedWeights::n() const {
  return packed_->n;
}
std::int64_t PreparedWeights::k() const {
  return packed_->k;
}
Fp4Format PreparedWeights::format() const {
  return packed_->format;
}
float PreparedWeights::alpha() const {
  return packed_->alpha;
}
std::size_t PreparedWeights::bytes() const {
  return packed_->bytes;
}

Result<PreparedWeights> prepare_weights(const Fp4View& weights) {
  PINCH_ASSIGN(packed, detail::pack_weights(weights));
  return GemmAccess::wrap(std::move(packed));
}

GemmPlan::GemmPlan(std::shared_ptr<const detail::GemmPlanState> state) : state_(std::move(state)) {}
std::string GemmPlan::tactic() const {
  return to_string(state_->layout.tactic);
}
int GemmPlan::threads() const {
  return state_->layout.workers;
}
const GemmProblem& GemmPlan::problem() const {
  return state_->problem;
}
std::size_t GemmPlan::workspace_bytes() const {
  return state_->layout.workspace_bytes;
}

namespace {

Result<CpuTactic> choose_tactic(const std::string& name, const GemmProblem& problem, const Resources& resources) {
  const TacticFamily& family = cpu_tactic_family();
  if (name.empty()) {
    PINCH_ASSIGN(pick, default_tactic(family, problem, resources));
    return cpu_tactics()[pick.index];
  }
  PINCH_ASSIGN(index, parse_tactic(family, name));
  if (auto reason = family.illegal(index, problem, resources)) return Error{ErrorCode::kIllegal, *reason, name};
  return cpu_tactics()[index];
}

}  // namespace

Result<GemmPlan> plan_gemm(const PreparedWeights& weights, std::int64_t m, const GemmOptions& options) {
  PINCH_TRY(detail::check_rows(m));
  if (options.threads < 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}; give 1 or more, or 0 for every CPU the process may use", options.threads), "threads"};
  }
  PINCH_TRY(cpu_choice());
  const GemmProblem problem{m, weights.n(), weights.k(), weights.format(), options.output};
  Resources resources;
  resources.threads = options.threads > 0 ? options.threads : cpu_machine().cores;
  PINCH_ASSIGN(tactic, choose_tactic(options.tactic, problem, resources));
  auto state = std::make_shared<detail::GemmPlanState>();
  state->problem = problem;
  state->layout = detail::plan_run(tactic, problem, resources.threads);
  state->weights = GemmAccess::packed(weights);
  return GemmAccess::wrap(std::move(state));
}

Result<void> run_gemm(const GemmPlan& plan, const Bf16* a, std::int64_t lda, void* out, std::int64_t ldo,
                      std::span<std::byte> workspace) {
  const detail::GemmPlanState& state = GemmAccess::state(plan);
  PINCH_TRY(detail::check_operands(a, lda, state.problem.k, out, ldo, state.problem.n));
  PINCH_TRY(detail::check_workspace(workspace, plan.workspace_bytes(), kWorkspaceAlignment));
  detail::run(state.layout, state.problem, *state.weights, a, lda, out, ldo, workspace.data());
  return {};
}

int gemm_trace_level() {
  return std::max(detail::trace_level(), gemm_bf16_fp4::sm90::backend_trace_level());
}

Result<void> mm_bf16_fp4(const PreparedWeights& weights, const Bf16* a, std::int64_t lda, std::int64_t m, void* out,
                         std::int64_t ldo, const GemmOptions& options) {
  PINCH_ASSIGN(plan, plan_gemm(weights, m, options));
  const std::size_t bytes =
      (plan.workspace_bytes() + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(kWorkspaceAlignment, bytes), std::free);
  if (memory == nullptr) {
    return Error{ErrorCode::kOutOfMemory, fmt::format("no memory for a workspace of {} bytes", bytes), ""};
  }
  return run_gemm(plan, a, lda, out, ldo, {static_cast<std::byte*>(memory.get()), bytes});
}

}  // namespace pinch
