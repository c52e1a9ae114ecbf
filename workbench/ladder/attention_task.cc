#include "workbench/ladder/attention_task.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <vector>

#include "pinch/attention.h"
#include "pinch/families.h"
#include "pinch/gemm.h"
#include "workbench/check/attention_check.h"
#include "workbench/ladder/gemm_target.h"
#include "workbench/ladder/waiting.h"
#include "workbench/measure/clock.h"
#include "workbench/measure/host_sampler.h"
#include "workbench/measure/limits.h"

namespace pinch::ladder {

namespace {

using measure::Protocol;
using measure::Verdict;

struct AlignedFree {
  void operator()(std::byte* memory) const { std::free(memory); }
};

struct InputSet {
  std::vector<Bf16> q, k, v;
};

class AttentionTask final : public Task, private HostSubject {
 public:
  AttentionTask(const AttentionProblem& problem, const AttentionTacticFamily& family, Machine machine, int threads)
      : problem_(problem),
        family_(family),
        machine_(std::move(machine)),
        resources_{0, threads},
        q_elements_(problem.batch * problem.heads * problem.seq * problem.dim),
        kv_elements_(problem.batch * problem.kv_heads * problem.kv_seq * problem.dim),
        out_bytes_(static_cast<std::size_t>(q_elements_) * (problem.output == OutputType::kBf16 ? 2 : 4)),
        sampler_(*this, clock_, meter_) {
    const bool exact = problem.pv == PvType::kBf16 && problem.qk == QkType::kBf16;
    work_ = attention_work(problem, exact ? "bf16 products, FP32 softmax and sums"
                                          : "emulated: operands rounded to fp8 or NVFP4, bf16 products, FP32 softmax "
                                            "and sums");
  }

  [[nodiscard]] const Work& work() const override { return work_; }
  [[nodiscard]] const AttentionTacticFamily& family() const override { return family_; }
  [[nodiscard]] const Resources& resources() const override { return resources_; }
  [[nodiscard]] const Machine& machine() const override { return machine_; }
  [[nodiscard]] std::string_view protocol() const override { return "calls"; }
  [[nodiscard]] Result<std::vector<RankedTactic>> ranked() const override {
    return rank_tactics(family_, problem_, resources_);
  }

  [[nodiscard]] Result<void> check_memory(const measure::Policy& policy, bool /*with_rivals*/) const override {
    // Inputs and result, the packed copy in FP32 for each worker, the cold sets.
    const double bytes = work_.least_bytes + 8 * static_cast<double>(kv_elements_ * resources_.threads) +
                         static_cast<double>(measure::cold_set_bytes(policy));
    const auto available = static_cast<double>(measure::available_memory_bytes());
    if (available == 0 || bytes <= 0.8 * available) return {};
    return Error{ErrorCode::kOutOfMemory,
                 fmt::format("{} needs about {:.1f} GiB and {:.1f} GiB are free; give smaller sizes", work_.heading,
                             bytes / 0x1p30, available / 0x1p30),
                 "problem"};
  }

  Result<void> prepare(const measure::Policy& policy) override {
    const std::size_t cold_bytes = measure::cold_set_bytes(policy);
    PINCH_ASSIGN(measured, measure_roofline(resources_.threads, cold_bytes, set_bytes()));
    roofline_ = measured;
    const std::size_t cold = std::max<std::size_t>(2, (cold_bytes - 1) / set_bytes() + 1);
    for (std::uint64_t seed = 0; seed <= cold; ++seed) {
      sets_.push_back({attention_values(q_elements_, 3 * seed + 1), attention_values(kv_elements_, 3 * seed + 2),
                       attention_values(kv_elements_, 3 * seed + 3)});
    }
    out_.assign(out_bytes_ + kMarginBytes, kPoison);
    PINCH_ASSIGN(reference, check::AttentionCheck::create(problem_, inputs(0), kReferenceWork, /*seed=*/12));
    reference_ = std::make_unique<check::AttentionCheck>(std::move(reference));
    return {};
  }

  [[nodiscard]] const Roofline& roofline() const override { return roofline_; }
  [[nodiscard]] std::size_t weight_bytes() const override { return static_cast<std::size_t>(4 * kv_elements_); }
  [[nodiscard]] std::size_t cold_set_bytes() const override { return (sets_.size() - 1) * set_bytes(); }
  Subject& subject() override { return *this; }
  measure::Sampler& sampler() override { return sampler_; }
  Result<Rivals> rivals() override {
    return Rivals{{}, {"peers: no library that this build opens has attention with bf16 inputs on a CPU"}};
  }

  Result<Waiting> waits(const std::string& tactic, const std::function<bool()>& stop_requested) override {
    PINCH_ASSIGN(subject, trace::attention_subject(problem_, {tactic, resources_.threads}));
    return trace_waiting(subject, stop_requested);
  }

 private:
  static constexpr std::size_t kMarginBytes = 4096;
  static constexpr std::byte kPoison{0xff};  // a NaN in bf16 and in FP32
  static constexpr double kReferenceWork = 4e8;
  static constexpr double kSecondCallNs = 20e6;  // a shorter first call is called again, without its first-time costs

  Checked check(std::size_t tactic) override {
    const auto failed = [](const Error& error) {
      return Checked{error.code == ErrorCode::kIllegal ? Verdict::kIllegal : Verdict::kLaunchFailed, error.message(),
                     std::nullopt, 1, 0};
    };
    const auto plan = plan_attention(problem_, {family_.to_string(tactic), resources_.threads});
    if (!plan) return failed(plan.error());
    if (const auto grown = grow_workspace(plan->workspace_bytes()); !grown) return failed(grown.error());
    std::fill(out_.begin(), out_.end(), kPoison);
    double start = clock_.wall_ns();
    if (const auto called = call(*plan, 0); !called) return failed(called.error());
    double call_ns = clock_.wall_ns() - start;
    const check::OutputVerdict output = reference_->compare(out_.data());
    Checked checked{Verdict::kOk, "", output.rel_l2, plan->threads(), call_ns};
    const bool beyond = std::any_of(out_.begin() + static_cast<std::ptrdiff_t>(out_bytes_), out_.end(),
                                    [](std::byte byte) { return byte != kPoison; });
    if (!output.right || beyond) {
      checked.verdict = Verdict::kWrong;
      checked.why = output.right ? "wrote past the end of the output" : output.why;
      return checked;
    }
    if (call_ns < kSecondCallNs) {
      start = clock_.wall_ns();
      if (const auto called = call(*plan, 0); !called) return failed(called.error());
      checked.call_ns = clock_.wall_ns() - start;
    }
    plans_.insert_or_assign(tactic, *plan);
    return checked;
  }

  Result<void> run(std::size_t id, Protocol protocol, int calls) override {
    const AttentionPlan& plan = plans_.at(id);
    for (int i = 0; i < calls; ++i) {
      if (protocol == Protocol::kCold) last_cold_ = last_cold_ + 1 < sets_.size() ? last_cold_ + 1 : 1;
      PINCH_TRY(call(plan, protocol == Protocol::kCold ? last_cold_ : 0));
    }
    return {};
  }

  [[nodiscard]] std::size_t set_bytes() const {
    return static_cast<std::size_t>(q_elements_ + 2 * kv_elements_) * sizeof(Bf16);
  }
  [[nodiscard]] AttentionInputs inputs(std::size_t set) const {
    const AttentionProblem& p = problem_;
    const InputSet& data = sets_[set];
    const std::int64_t q_head = p.seq * p.dim, kv_head = p.kv_seq * p.dim;
    return {{data.q.data(), p.heads * q_head, q_head, p.dim},
            {data.k.data(), p.kv_heads * kv_head, kv_head, p.dim},
            {data.v.data(), p.kv_heads * kv_head, kv_head, p.dim},
            1 / std::sqrt(static_cast<float>(p.dim))};
  }
  Result<void> call(const AttentionPlan& plan, std::size_t set) {
    const std::int64_t head = problem_.seq * problem_.dim;
    return run_attention(plan, inputs(set), {{out_.data(), problem_.heads * head, head, problem_.dim}},
                         {workspace_.get(), workspace_bytes_});
  }
  Result<void> grow_workspace(std::size_t bytes) {
    if (bytes <= workspace_bytes_) return {};
    const std::size_t rounded = (bytes + kAttentionAlignment - 1) / kAttentionAlignment * kAttentionAlignment;
    workspace_.reset(static_cast<std::byte*>(std::aligned_alloc(kAttentionAlignment, rounded)));
    workspace_bytes_ = workspace_ ? rounded : 0;
    if (workspace_) return {};
    return Error{ErrorCode::kOutOfMemory, fmt::format("no memory for a workspace of {} bytes", rounded), ""};
  }

  AttentionProblem problem_;
  const AttentionTacticFamily& family_;
  Machine machine_;
  Resources resources_;
  Work work_;
  std::int64_t q_elements_, kv_elements_;
  std::size_t out_bytes_;
  Roofline roofline_;
  std::vector<InputSet> sets_;  ///< the warm one, then the cold ones
  std::vector<std::byte> out_;  ///< and a margin that no call may touch
  std::unique_ptr<check::AttentionCheck> reference_;
  std::map<std::size_t, AttentionPlan> plans_;
  std::unique_ptr<std::byte, AlignedFree> workspace_;
  std::size_t workspace_bytes_ = 0;
  std::size_t last_cold_ = 0;
  measure::SystemClock clock_;
  measure::AddChain meter_{clock_};
  measure::HostSampler sampler_;
};

}  // namespace

Work attention_work(const AttentionProblem& p, std::string_view numerics) {
  const std::int64_t q = p.batch * p.heads * p.seq * p.dim, kv = p.batch * p.kv_heads * p.kv_seq * p.dim;
  const double out_bytes = static_cast<double>(q) * (p.output == OutputType::kBf16 ? 2 : 4);
  return {"attention",
          {{"batch", p.batch},
           {"heads", p.heads},
           {"kv_heads", p.kv_heads},
           {"seq", p.seq},
           {"kv_seq", p.kv_seq},
           {"dim", p.dim},
           {"causal", p.causal},
           {"pv", std::string(to_string(p.pv))},
           {"qk", std::string(to_string(p.qk))},
           {"output", std::string(to_string(p.output))}},
          fmt::format("attention  batch {}  heads {} / {}  seq {} / {}  dim {}  {}  qk {}  pv {} -> {}", p.batch,
                      p.heads, p.kv_heads, p.seq, p.kv_seq, p.dim, p.causal ? "causal" : "full", to_string(p.qk),
                      to_string(p.pv), to_string(p.output)),
          "generated",
          numerics,
          attention_flops(p),
          static_cast<double>(q + 2 * kv) * sizeof(Bf16) + out_bytes,
          4 * static_cast<double>(kv)};
}

std::vector<Bf16> attention_values(std::int64_t count, std::uint64_t seed) {
  std::vector<Bf16> values(static_cast<std::size_t>(count));
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    state ^= state << 13;  // Marsaglia's xorshift
    state ^= state >> 7;
    state ^= state << 17;
    const auto bits = static_cast<std::uint32_t>(state >> 40);
    values[i].bits = static_cast<std::uint16_t>((bits & 0x807fU) | (124U + (bits >> 20) % 4U) << 7);
  }
  return values;
}

Result<std::unique_ptr<Task>> make_cpu_attention_task(const AttentionProblem& problem, int threads) {
  PINCH_TRY(check_rankable(gemm_trace_level()));  // set for a whole build, so the product's level is attention's
  PINCH_TRY(validate(problem));
  PINCH_ASSIGN(machine, describe_machine());
  return std::unique_ptr<Task>(
      std::make_unique<AttentionTask>(problem, *attention_tactic_families().front(), std::move(machine), threads));
}

}  // namespace pinch::ladder
