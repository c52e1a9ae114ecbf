#include "pinch/attention_cuda.h"

#include <fmt/core.h>

#include <utility>

#include "kernels/attention/arguments.h"
#include "kernels/attention/sm90/backend.h"
#include "kernels/attention/sm90/family.h"
#include "kernels/gemm_bf16_fp4/arguments.h"
#include "kernels/gemm_bf16_fp4/sm90/backend.h"

namespace pinch::cuda {

namespace kernels = attention::sm90;

namespace detail {

struct AttentionPlanState {
  AttentionProblem problem;
  int device = 0;
  kernels::Tactic tactic;
  const kernels::BuiltKernel* kernel = nullptr;
  const kernels::DeviceFacts* facts = nullptr;
};

struct AttentionAccess {
  static AttentionPlan wrap(std::shared_ptr<const AttentionPlanState> state) { return AttentionPlan(std::move(state)); }
  static const AttentionPlanState& state(const AttentionPlan& plan) { return *plan.state_; }
};

}  // namespace detail

using detail::AttentionAccess;

AttentionPlan::AttentionPlan(std::shared_ptr<const detail::AttentionPlanState> state) : state_(std::move(state)) {}
std::string AttentionPlan::tactic() const {
  return kernels::to_string(state_->tactic);
}
int AttentionPlan::device() const {
  return state_->device;
}
const AttentionProblem& AttentionPlan::problem() const {
  return state_->problem;
}
std::size_t AttentionPlan::workspace_bytes() const {
  return kernels::workspace_bytes(state_->problem);
}

namespace {

/// The `sm90_attention` family as this build can run it.
class BuiltAttentionTactics final : public AttentionTacticFamily {
 public:
  [[nodiscard]] std::string_view name() const override { return whole_.name(); }
  [[nodiscard]] std::size_t size() const override { return whole_.size(); }
  [[nodiscard]] std::string to_string(std::size_t index) const override { return whole_.to_string(index); }
  [[nodiscard]] Knobs knobs(std::size_t index) const override { return whole_.knobs(index); }
  [[nodiscard]] std::optional<std::string> illegal(std::size_t index, const AttentionProblem& problem,
                                                   const Resources& resources) const override {
    if (auto why = whole_.illegal(index, problem, resources)) return why;
    if (kernels::find_kernel(kernels::kind_of(problem), kernels::tactics()[index].tile) != nullptr) return {};
    return "this build left its kernel out; configure with -DPINCH_TACTICS=full";
  }
  [[nodiscard]] int usual_sm_count() const override { return whole_.usual_sm_count(); }
  [[nodiscard]] std::span<const std::string_view> models() const override { return whole_.models(); }
  [[nodiscard]] Result<Estimate> estimate(std::string_view model, std::size_t index, const AttentionProblem& problem,
                                          const Resources& resources) const override {
    return whole_.estimate(model, index, problem, resources);
  }
  [[nodiscard]] std::string_view calibration(std::string_view model) const override {
    return whole_.calibration(model);
  }

 private:
  const AttentionTacticFamily& whole_ = sm90_attention_family();
};

Result<std::size_t> choose_attention_tactic(const std::string& name, const AttentionProblem& problem,
                                            const Resources& resources) {
  const AttentionTacticFamily& family = built_attention_tactics();
  if (name.empty()) {
    PINCH_ASSIGN(pick, default_tactic(family, problem, resources));
    return pick.index;
  }
  PINCH_ASSIGN(index, parse_tactic(family, name));
  if (auto reason = family.illegal(index, problem, resources)) return Error{ErrorCode::kIllegal, *reason, name};
  return index;
}

template <class T>
kernels::Array array_of(const AttentionArray<T>& array) {
  return {const_cast<void*>(static_cast<const void*>(array.data)), array.batch_stride, array.head_stride,
          array.row_stride};
}

Result<void> check_pointers(int device, const AttentionInputs& in, const AttentionOutputs& out) {
  namespace memory = gemm_bf16_fp4::sm90;
  PINCH_TRY(memory::check_memory(device, in.q.data, "q"));
  PINCH_TRY(memory::check_memory(device, in.k.data, "k"));
  PINCH_TRY(memory::check_memory(device, in.v.data, "v"));
  PINCH_TRY(memory::check_memory(device, out.o.data, "o"));
  if (out.lse != nullptr) PINCH_TRY(memory::check_memory(device, out.lse, "lse"));
  if (in.cu_seqlens_q.empty()) return {};
  PINCH_TRY(memory::check_memory(device, in.cu_seqlens_q.data(), "cu_seqlens_q"));
  return memory::check_memory(device, in.cu_seqlens_kv.data(), "cu_seqlens_kv");
}

}  // namespace

const AttentionTacticFamily& built_attention_tactics() {
  static const BuiltAttentionTactics family;
  return family;
}

Result<AttentionPlan> plan_attention(const AttentionProblem& problem, int device, const AttentionOptions& options) {
  PINCH_TRY(validate(problem));
  PINCH_TRY(gemm_device(device));
  PINCH_ASSIGN(facts, kernels::device_facts(device));
  auto state = std::make_shared<detail::AttentionPlanState>();
  state->problem = problem;
  state->device = device;
  state->facts = facts;
  Resources resources;
  resources.sm_count = facts->sm_count;
  PINCH_ASSIGN(index, choose_attention_tactic(options.tactic, problem, resources));
  state->tactic = kernels::tactics()[index];
  state->kernel = kernels::find_kernel(kernels::kind_of(problem), state->tactic.tile);
  return AttentionAccess::wrap(std::move(state));
}

Result<void> run_attention(const AttentionPlan& plan, const AttentionInputs& in, const AttentionOutputs& out,
                           std::span<std::byte> workspace, Stream stream) {
  const detail::AttentionPlanState& state = AttentionAccess::state(plan);
  PINCH_TRY(pinch::detail::check_device_call(state.problem, in, out, kStrideMultiple, kPointerAlignment));
  PINCH_TRY(pinch::detail::check_workspace(workspace, plan.workspace_bytes(), kPointerAlignment));
  PINCH_TRY(check_pointers(state.device, in, out));
  PINCH_TRY(gemm_bf16_fp4::sm90::check_memory(state.device, workspace.data(), "workspace"));
  PINCH_TRY(gemm_bf16_fp4::sm90::check_stream(state.device, stream));
  if (!in.cu_seqlens_q.empty() && in.total_q == 0) return {};  // no row to write
  const kernels::LaunchCall call{.q = array_of(in.q),
                                 .k = array_of(in.k),
                                 .v = array_of(in.v),
                                 .o = array_of(out.o),
                                 .lse = out.lse,
                                 .lse_batch_stride = out.lse_batch_stride,
                                 .lse_head_stride = out.lse_head_stride,
                                 .scale = in.scale,
                                 .cu_seqlens_q = in.cu_seqlens_q.data(),
                                 .cu_seqlens_kv = in.cu_seqlens_kv.data(),
                                 .total_q = in.total_q,
                                 .total_kv = in.total_kv,
                                 .workspace = workspace.data()};
  return kernels::launch(*state.kernel, state.tactic, state.problem, call, *state.facts, state.device, stream);
}

}  // namespace pinch::cuda
