#include "workbench/ladder/gemm_subject.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "pinch/families.h"

namespace pinch::ladder {

namespace {

using measure::Protocol;
using measure::Verdict;

constexpr std::int64_t kReferenceRows = 8;
constexpr std::size_t kMarginBytes = 4096;
constexpr std::byte kPoison{0xff};  // a NaN in bf16 and in FP32
constexpr std::uint64_t kActivationSeed = 11;
constexpr std::uint64_t kCheckSeed = 12;
constexpr double kSecondCallNs = 20e6;  // a shorter first call is called again, without its first-time costs

}  // namespace

void GemmSubject::AlignedFree::operator()(std::byte* memory) const {
  std::free(memory);
}

Result<std::unique_ptr<GemmSubject>> GemmSubject::create(const PreparedSet& set, std::int64_t m, OutputType output,
                                                         int threads) {
  PINCH_ASSIGN(family, find_tactic_family("cpu"));
  std::unique_ptr<GemmSubject> subject(new GemmSubject(set, *family));
  const Fp4View weights = set.view();
  subject->problem_ = {m, weights.n, weights.k, weights.format, output};
  subject->resources_.threads = threads;
  PINCH_TRY(validate(subject->problem_));
  PINCH_TRY(check_memory(subject->problem_, 0));
  subject->a_ = random_activations(m * weights.k, kActivationSeed);
  subject->out_bytes_ =
      static_cast<std::size_t>(m * weights.n) * (output == OutputType::kBf16 ? sizeof(Bf16) : sizeof(float));
  subject->out_.resize(subject->out_bytes_ + kMarginBytes);
  PINCH_ASSIGN(reference, check::GemmCheck::create(weights, subject->a_, m, output, kReferenceRows, kCheckSeed));
  subject->reference_ = std::make_unique<check::GemmCheck>(std::move(reference));
  return subject;
}

Result<GemmPlan> GemmSubject::plan(std::size_t tactic, const PreparedWeights& weights) const {
  return plan_gemm(weights, problem_.m, {family_->to_string(tactic), resources_.threads, problem_.output});
}

Result<void> GemmSubject::grow_workspace(std::size_t bytes) {
  if (bytes <= workspace_bytes_) return {};
  const std::size_t rounded = (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  workspace_.reset(static_cast<std::byte*>(std::aligned_alloc(kWorkspaceAlignment, rounded)));
  workspace_bytes_ = workspace_ ? rounded : 0;
  if (workspace_) return {};
  return Error{ErrorCode::kOutOfMemory, fmt::format("no memory for a workspace of {} bytes", rounded), ""};
}

Result<void> GemmSubject::call(const GemmPlan& plan) {
  return run_gemm(plan, a_.data(), problem_.k, out_.data(), problem_.n, {workspace_.get(), workspace_bytes_});
}

bool GemmSubject::wrote_past_the_end() const {
  return std::any_of(out_.begin() + static_cast<std::ptrdiff_t>(out_bytes_), out_.end(),
                     [](std::byte byte) { return byte != kPoison; });
}

Checked GemmSubject::check(std::size_t tactic) {
  const auto failed = [](const Error& error) {
    return Checked{error.code == ErrorCode::kIllegal ? Verdict::kIllegal : Verdict::kLaunchFailed, error.message(),
                   std::nullopt, 1, 0};
  };
  const Result<GemmPlan> planned = plan(tactic, set_.warm());
  if (!planned) return failed(planned.error());
  const GemmPlan& warm = *planned;
  if (const Result<void> grown = grow_workspace(warm.workspace_bytes()); !grown) return failed(grown.error());
  std::fill(out_.begin(), out_.end(), kPoison);
  double start = clock_.wall_ns();
  if (const Result<void> called = call(warm); !called) return failed(called.error());
  double call_ns = clock_.wall_ns() - start;
  const check::OutputVerdict output = reference_->compare(out_.data());
  Checked checked{Verdict::kOk, "", output.rel_l2, warm.threads(), call_ns};
  if (!output.right || wrote_past_the_end()) {
    checked.verdict = Verdict::kWrong;
    checked.why = output.right ? "wrote past the end of the output" : output.why;
    return checked;
  }
  if (call_ns < kSecondCallNs) {
    start = clock_.wall_ns();
    if (const Result<void> called = call(warm); !called) return failed(called.error());
    checked.call_ns = clock_.wall_ns() - start;
  }
  plans_[tactic].resize(1 + set_.cold().size());
  plans_[tactic].front() = warm;
  return checked;
}

Result<void> GemmSubject::ready(std::size_t id, Protocol protocol, int calls) {
  if (protocol == Protocol::kWarm) return {};
  std::vector<std::optional<GemmPlan>>& plans = plans_.at(id);
  std::size_t at = last_cold_;
  for (int i = 0; i < calls; ++i) {
    at = cold_after(at);
    if (plans[at]) continue;
    PINCH_ASSIGN(made, plan(id, set_.cold()[at - 1]));
    plans[at] = std::move(made);
  }
  return {};
}

Result<void> GemmSubject::run(std::size_t id, Protocol protocol, int calls) {
  const std::vector<std::optional<GemmPlan>>& plans = plans_.at(id);
  for (int i = 0; i < calls; ++i) {
    if (protocol == Protocol::kCold) last_cold_ = cold_after(last_cold_);
    PINCH_TRY(call(*plans[protocol == Protocol::kCold ? last_cold_ : 0]));
  }
  return {};
}

}  // namespace pinch::ladder
