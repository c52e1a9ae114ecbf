#include <fmt/core.h>

#include "workbench/ladder/gemm_target.h"

namespace pinch::ladder {

class GemmTask final : public Task {
 public:
  GemmTask(GemmWeights& weights, std::int64_t m, OutputType output)
      : weights_(weights),
        problem_{m, weights.weights_.n, weights.weights_.k, weights.weights_.format, output},
        work_{"gemm",
              {{"m", m},
               {"n", problem_.n},
               {"k", problem_.k},
               {"format", std::string(to_string(problem_.format))},
               {"output", std::string(to_string(output))}},
              fmt::format("gemm  m {}  n {}  k {}  {} -> {}", m, problem_.n, problem_.k, to_string(problem_.format),
                          to_string(output)),
              weights.name_,
              "bf16 x FP4, exact; FP32 sums",
              flops(problem_),
              least_bytes(problem_),
              static_cast<double>(problem_.n) * static_cast<double>(problem_.k) *
                  (0.5 + 1.0 / static_cast<double>(group_size(problem_.format)))} {}

  [[nodiscard]] const Work& work() const override { return work_; }
  [[nodiscard]] const TacticList& family() const override { return target().family(); }
  [[nodiscard]] const Resources& resources() const override { return target().resources(); }
  [[nodiscard]] const Machine& machine() const override { return target().machine(); }
  [[nodiscard]] std::string_view protocol() const override { return target().protocol(); }
  [[nodiscard]] Result<std::vector<RankedTactic>> ranked() const override {
    return rank_tactics(target().family(), problem_, target().resources());
  }
  [[nodiscard]] Result<void> check_memory(const measure::Policy& policy, bool with_rivals) const override {
    return target().check_memory(problem_, policy, with_rivals);
  }
  Result<void> prepare(const measure::Policy& policy) override {
    PINCH_TRY(weights_.prepare(policy));
    PINCH_ASSIGN(made, target().problem(problem_.m, problem_.output));
    case_ = std::move(made);
    return {};
  }
  [[nodiscard]] const Roofline& roofline() const override { return target().roofline(); }
  [[nodiscard]] std::size_t weight_bytes() const override { return target().weight_bytes(); }
  [[nodiscard]] std::size_t cold_set_bytes() const override { return target().cold_set_bytes(); }
  Subject& subject() override { return case_->subject(); }
  measure::Sampler& sampler() override { return case_->sampler(); }
  Result<Rivals> rivals() override { return case_->rivals(); }
  Result<Waiting> waits(const std::string& tactic, const std::function<bool()>& stop_requested) override {
    return target().waits(problem_, tactic, stop_requested);
  }
  Result<Code> code(const std::string& tactic) override { return case_->code(tactic); }

 private:
  [[nodiscard]] GemmTarget& target() const { return weights_.target_; }

  GemmWeights& weights_;
  GemmProblem problem_;
  Work work_;
  std::unique_ptr<GemmCase> case_;
};

GemmWeights::GemmWeights(GemmTarget& target, Fp4Matrix weights, std::string name)
    : target_(target), weights_(std::move(weights)), name_(std::move(name)) {}

std::unique_ptr<Task> GemmWeights::task(std::int64_t m, OutputType output) {
  return std::make_unique<GemmTask>(*this, m, output);
}

Result<void> GemmWeights::prepare(const measure::Policy& policy) {
  if (prepared_) return {};
  Fp4Matrix shape;
  shape.format = weights_.format;
  shape.n = weights_.n;
  shape.k = weights_.k;
  PINCH_TRY(target_.prepare(std::move(weights_), policy));
  weights_ = std::move(shape);
  prepared_ = true;
  return {};
}

}  // namespace pinch::ladder
