#include "kernels/gemm_bf16_fp4/sm90/family.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/model.h"

namespace pinch {
namespace {

namespace sm90 = gemm_bf16_fp4::sm90;

std::string split_name(int split) {
  return split == sm90::kStreamK ? "stream" : fmt::format("{}", split);
}

Knobs knobs_of(const sm90::WgmmaTactic& t) {
  return {{"kernel", std::string("wgmma")},
          {"tile_n", std::int64_t{t.tile.tile_n}},
          {"tile_m", std::int64_t{t.tile.tile_m}},
          {"tile_k", std::int64_t{t.tile.tile_k}},
          {"stages", std::int64_t{t.tile.stages}},
          {"consumers", std::int64_t{t.tile.consumers}},
          {"cluster", KnobPair{t.tile.cluster_n, t.tile.cluster_k}},
          {"group", std::int64_t{t.tile.group}},
          {"split_k", split_name(t.split_k)},
          {"raster_m", std::int64_t{t.raster_m}}};
}

Knobs knobs_of(const sm90::StreamTactic& t) {
  return {{"kernel", std::string("stream")},
          {"m_blocks", std::int64_t{t.m_blocks}},
          {"row_tiles", std::int64_t{t.row_tiles}},
          {"in_flight", std::int64_t{t.in_flight}},
          {"warps", std::int64_t{t.warps}},
          {"blocks_per_sm", std::int64_t{t.blocks_per_sm}},
          {"k_warps", std::int64_t{t.k_warps}},
          {"split_k", split_name(t.split_k)},
          {"balance", t.balance == 1}};
}

// What no tactic can run has one answer, whichever kernel is asked.
std::optional<std::string> problem_fault(const GemmProblem& p) {
  constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
  if (p.m > kLargest || p.n > kLargest || p.k > kLargest) return fmt::format("m, n or k is larger than {}", kLargest);
  if (p.n % 8 != 0) return fmt::format("n {} is not a multiple of 8", p.n);
  if (p.k % 32 != 0) return fmt::format("k {} is not a multiple of 32", p.k);
  return std::nullopt;
}

sm90::WgmmaProblem sizes_of(const GemmProblem& p) {
  return {static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k)};
}
sm90::ModelProblem call_of(const GemmProblem& p) {
  return {sizes_of(p), p.format, p.output};
}

Result<void> check_multiprocessors(const Resources& resources) {
  if (resources.sm_count >= 1) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("sm_count is {}; the sm90 models need at least 1 multiprocessor", resources.sm_count),
               "sm_count"};
}

std::size_t place_of(std::string_view model) {
  return static_cast<std::size_t>(std::find(sm90::models().begin(), sm90::models().end(), model) -
                                  sm90::models().begin());
}

class Sm90Family final : public TacticFamily {
 public:
  Sm90Family() {
    for (const sm90::Tactic& tactic : sm90::tactics()) names_.push_back(sm90::to_string(tactic));
  }
  [[nodiscard]] std::string_view name() const override { return "sm90"; }
  [[nodiscard]] std::size_t size() const override { return names_.size(); }
  [[nodiscard]] std::string to_string(std::size_t index) const override { return names_[index]; }
  [[nodiscard]] Knobs knobs(std::size_t index) const override {
    return std::visit([](const auto& tactic) { return knobs_of(tactic); }, sm90::tactics()[index]);
  }
  [[nodiscard]] int usual_sm_count() const override { return 132; }
  [[nodiscard]] std::optional<std::string> illegal(std::size_t index, const GemmProblem& problem,
                                                   const Resources& resources) const override {
    if (resources.sm_count < 1) return std::nullopt;  // estimate() refuses that, for it is no fault of the tactic
    if (auto fault = problem_fault(problem)) return fault;
    const auto why = sm90::illegal(sm90::tactics()[index], sizes_of(problem), sm90::sm90_device(resources.sm_count));
    if (why.empty()) return std::nullopt;
    return std::string(why);
  }
  [[nodiscard]] std::span<const std::string_view> models() const override { return sm90::models(); }
  [[nodiscard]] Result<Estimate> estimate(std::string_view model, std::size_t index, const GemmProblem& problem,
                                          const Resources& resources) const override {
    PINCH_ASSIGN(known, find_model(*this, model));
    PINCH_TRY(check_multiprocessors(resources));
    // Records may hold what no launch takes; the rest of what is illegal has an estimate all the same.
    if (auto fault = problem_fault(problem)) return Error{ErrorCode::kIllegal, *fault, names_[index]};
    if (constexpr int kLargestCluster = 8; resources.sm_count < kLargestCluster) {
      if (auto why = illegal(index, problem, resources)) return Error{ErrorCode::kIllegal, *why, names_[index]};
    }
    return sm90::estimate(place_of(known), index, call_of(problem), sm90::sm90_device(resources.sm_count));
  }
  [[nodiscard]] std::string_view calibration(std::string_view model) const override {
    return model == models().front() ? pinch::to_string(Calibration::kMeasured) : std::string_view();
  }
  [[nodiscard]] Result<std::optional<RankedTactic>> cheapest(std::string_view model, const GemmProblem& problem,
                                                             const Resources& resources) const override {
    PINCH_TRY(check_multiprocessors(resources));
    if (problem_fault(problem)) return std::optional<RankedTactic>();
    return sm90::cheapest(place_of(model), call_of(problem), sm90::sm90_device(resources.sm_count));
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace

const TacticFamily& sm90_tactic_family() {
  static const Sm90Family family;
  return family;
}

}  // namespace pinch
