#include "kernels/attention/sm90/family.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "kernels/attention/sm90/model.h"

namespace pinch {
namespace {

namespace kernels = attention::sm90;

constexpr std::size_t kH200L2Bytes = std::size_t{60} << 20;  // what the driver reports of an H200 (data/h200)

kernels::DeviceFacts facts_of(const Resources& resources) {
  return {resources.sm_count, kH200L2Bytes};
}

class Sm90AttentionFamily final : public AttentionTacticFamily {
 public:
  [[nodiscard]] std::string_view name() const override { return "sm90_attention"; }
  [[nodiscard]] std::size_t size() const override { return kernels::tactics().size(); }
  [[nodiscard]] std::string to_string(std::size_t index) const override {
    return kernels::to_string(kernels::tactics()[index]);
  }
  [[nodiscard]] Knobs knobs(std::size_t index) const override {
    const kernels::Tactic& t = kernels::tactics()[index];
    return {{"tile_q", std::int64_t{t.tile.tile_q}},
            {"tile_kv", std::int64_t{t.tile.tile_kv}},
            {"stages", std::int64_t{t.tile.stages}},
            {"exp2", std::string(attention::to_string(t.tile.exp2))},
            {"sixteenths", std::int64_t{t.tile.sixteenths}},
            {"quant", std::string(attention::to_string(t.tile.quant))},
            {"split", KnobPair{t.tile.split_numerator, t.tile.split_denominator}},
            {"chunks", std::int64_t{t.tile.chunks}},
            {"threshold", std::int64_t{t.threshold}},
            {"schedule", std::string(t.schedule == kernels::Schedule::kStatic ? "static" : "dynamic")},
            {"heads", std::int64_t{t.heads}}};
  }
  [[nodiscard]] int usual_sm_count() const override { return 132; }
  [[nodiscard]] std::optional<std::string> illegal(std::size_t index, const AttentionProblem& problem,
                                                   const Resources& resources) const override {
    if (resources.sm_count < 1) return std::nullopt;  // estimate() refuses that, for it is no fault of the tactic
    const auto why = kernels::illegal_listed(kernels::tactics()[index], problem, facts_of(resources));
    if (why.empty()) return std::nullopt;
    return std::string(why);
  }
  [[nodiscard]] std::span<const std::string_view> models() const override { return kModels; }
  [[nodiscard]] Result<Estimate> estimate(std::string_view model, std::size_t index, const AttentionProblem& problem,
                                          const Resources& resources) const override {
    PINCH_TRY(find_model(*this, model));
    if (resources.sm_count < 1) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("sm_count is {}; the sm90_attention model needs at least 1 multiprocessor", resources.sm_count),
          "sm_count"};
    }
    const kernels::Cost cost =
        kernels::cost(kernels::tactics()[index], problem, facts_of(resources), kernels::h200_constants());
    return Estimate{cost.ns, "ns", cost.ctas, cost.waves};
  }
  [[nodiscard]] std::string_view calibration(std::string_view) const override {
    const auto& constants = h200_attention_machine_model().constants;
    const bool assumed = std::any_of(constants.begin(), constants.end(),
                                     [](const MachineConstant& constant) { return constant.source == "assumed"; });
    return pinch::to_string(assumed ? Calibration::kUncalibrated : Calibration::kMeasured);
  }

 private:
  static constexpr std::array<std::string_view, 1> kModels = {"time"};
};

}  // namespace

const AttentionTacticFamily& sm90_attention_family() {
  static const Sm90AttentionFamily family;
  return family;
}

}  // namespace pinch
