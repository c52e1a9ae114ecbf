// mm_bf16_fp4 on the CPU as a subject, through the library's public headers alone.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "pinch/gemm.h"
#include "workbench/check/gemm_check.h"
#include "workbench/ladder/gemm_inputs.h"
#include "workbench/ladder/subject.h"
#include "workbench/measure/clock.h"

namespace pinch::ladder {

class GemmSubject final : public HostSubject {
 public:
  /// One call of m rows by the weights of `set`, which must outlive the subject. Computes the reference, about
  /// 8 n k multiply-adds in FP64. Errors: an invalid problem, too little memory, what reference_gemm refuses.
  static Result<std::unique_ptr<GemmSubject>> create(const PreparedSet& set, std::int64_t m, OutputType output,
                                                     int threads);

  [[nodiscard]] const TacticFamily& family() const override { return *family_; }
  [[nodiscard]] Result<std::vector<RankedTactic>> ranked() const override {
    return rank_tactics(*family_, problem_, resources_);
  }
  [[nodiscard]] const GemmProblem& problem() const { return problem_; }
  [[nodiscard]] const Resources& resources() const { return resources_; }
  Checked check(std::size_t tactic) override;
  /// Plans the calls: a plan costs as much as a small product, and there are thousands of small cold weights.
  Result<void> ready(std::size_t id, measure::Protocol protocol, int calls) override;
  /// kCold needs a set with cold weights, and ready() before.
  Result<void> run(std::size_t id, measure::Protocol protocol, int calls) override;

  [[nodiscard]] std::span<const Bf16> activations() const { return a_; }
  [[nodiscard]] const check::GemmCheck& reference() const { return *reference_; }

 private:
  struct AlignedFree {
    void operator()(std::byte* memory) const;
  };
  GemmSubject(const PreparedSet& set, const TacticFamily& family) : set_(set), family_(&family) {}
  Result<GemmPlan> plan(std::size_t tactic, const PreparedWeights& weights) const;
  Result<void> grow_workspace(std::size_t bytes);
  [[nodiscard]] std::size_t cold_after(std::size_t index) const { return index < set_.cold().size() ? index + 1 : 1; }
  Result<void> call(const GemmPlan& plan);
  [[nodiscard]] bool wrote_past_the_end() const;

  const PreparedSet& set_;
  const TacticFamily* family_;
  GemmProblem problem_;
  Resources resources_;
  std::vector<Bf16> a_;
  std::vector<std::byte> out_;  ///< [m, n] and a margin that no call may touch
  std::size_t out_bytes_ = 0;
  std::unique_ptr<check::GemmCheck> reference_;
  /// Of a tactic: for the warm weights, then for each of the cold ones, made when first needed.
  std::unordered_map<std::size_t, std::vector<std::optional<GemmPlan>>> plans_;
  std::unique_ptr<std::byte, AlignedFree> workspace_;
  std::size_t workspace_bytes_ = 0;
  std::size_t last_cold_ = 0;  ///< place in plans_ of the cold weights used last
  measure::SystemClock clock_;
};

}  // namespace pinch::ladder
