// The sm90 family as this build can run it.
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/backend.h"
#include "kernels/gemm_bf16_fp4/sm90/family.h"
#include "pinch/gemm_cuda.h"

namespace pinch::cuda {

namespace {

namespace sm90 = gemm_bf16_fp4::sm90;

constexpr std::array kFormats{std::pair{Fp4Format::kNvfp4, sm90::Format::kNvfp4},
                              std::pair{Fp4Format::kMxfp4, sm90::Format::kMxfp4}};
constexpr std::array kOutputs{OutputType::kBf16, OutputType::kF32};

class BuiltTactics final : public TacticFamily {
 public:
  BuiltTactics() {
    for (const sm90::Tactic& tactic : sm90::tactics()) {
      Built& row = built_.emplace_back();
      for (std::size_t f = 0; f < kFormats.size(); ++f) {
        for (std::size_t o = 0; o < kOutputs.size(); ++o) {
          row[f][o] = sm90::find_kernel(tactic, kFormats[f].second, kOutputs[o]) != nullptr;
          complete_ = complete_ && row[f][o];
        }
      }
    }
  }

  [[nodiscard]] std::string_view name() const override { return whole_.name(); }
  [[nodiscard]] std::size_t size() const override { return whole_.size(); }
  [[nodiscard]] std::string to_string(std::size_t index) const override { return whole_.to_string(index); }
  [[nodiscard]] Knobs knobs(std::size_t index) const override { return whole_.knobs(index); }
  [[nodiscard]] std::optional<std::string> illegal(std::size_t index, const GemmProblem& problem,
                                                   const Resources& resources) const override {
    if (auto why = whole_.illegal(index, problem, resources)) return why;
    if (built_[index][static_cast<std::size_t>(problem.format)][static_cast<std::size_t>(problem.output)]) return {};
    return "this build left its kernel out; configure with -DPINCH_TACTICS=full";
  }
  [[nodiscard]] int usual_sm_count() const override { return whole_.usual_sm_count(); }
  [[nodiscard]] std::span<const std::string_view> models() const override { return whole_.models(); }
  [[nodiscard]] Result<Estimate> estimate(std::string_view model, std::size_t index, const GemmProblem& problem,
                                          const Resources& resources) const override {
    return whole_.estimate(model, index, problem, resources);
  }
  [[nodiscard]] std::string_view calibration(std::string_view model) const override {
    return whole_.calibration(model);
  }
  [[nodiscard]] std::uint64_t tie_key(std::size_t index) const override { return whole_.tie_key(index); }
  [[nodiscard]] Result<std::optional<RankedTactic>> cheapest(std::string_view model, const GemmProblem& problem,
                                                             const Resources& resources) const override {
    return complete_ ? whole_.cheapest(model, problem, resources) : TacticFamily::cheapest(model, problem, resources);
  }

 private:
  using Built = std::array<std::array<bool, kOutputs.size()>, kFormats.size()>;
  const TacticFamily& whole_ = sm90_tactic_family();
  std::vector<Built> built_;  // by tactic, Fp4Format and OutputType
  bool complete_ = true;
};

}  // namespace

const TacticFamily& built_tactics() {
  static const BuiltTactics family;
  return family;
}

}  // namespace pinch::cuda
