// A subject on the simulated machine: a family of numbered tactics with true times, a cost model that may be wrong
// about them, and faults that a test plants.
#pragma once

#include <fmt/core.h>

#include <array>
#include <set>

#include "tests/support/simulated_machine.h"
#include "workbench/ladder/subject.h"

namespace pinch::test {

class NumberedFamily final : public TacticFamily {
 public:
  explicit NumberedFamily(std::vector<double> predicted_ns) : predicted_ns_(std::move(predicted_ns)) {}
  [[nodiscard]] std::string_view name() const override { return "numbered"; }
  [[nodiscard]] std::size_t size() const override { return predicted_ns_.size(); }
  [[nodiscard]] std::string to_string(std::size_t index) const override { return fmt::format("tactic{}", index); }
  [[nodiscard]] Knobs knobs(std::size_t) const override { return {}; }
  [[nodiscard]] std::optional<std::string> illegal(std::size_t, const GemmProblem&, const Resources&) const override {
    return std::nullopt;
  }
  [[nodiscard]] std::span<const std::string_view> models() const override { return kModels; }
  [[nodiscard]] Result<Estimate> estimate(std::string_view, std::size_t index, const GemmProblem&,
                                          const Resources&) const override {
    return Estimate{predicted_ns_[index], "ns", 1, 1};
  }

 private:
  static constexpr std::array<std::string_view, 1> kModels = {"time"};
  std::vector<double> predicted_ns_;
};

class SimulatedSubject final : public ladder::HostSubject {
 public:
  /// Tactic i truly takes true_ns[i]; the model ranks by predicted_ns.
  SimulatedSubject(std::vector<double> true_ns, std::vector<double> predicted_ns, std::uint64_t seed)
      : machine(true_ns, seed), family_(std::move(predicted_ns)), true_ns_(std::move(true_ns)) {}

  SimulatedMachine machine;
  std::set<std::size_t> wrong;  ///< tactics whose output differs from the reference

  [[nodiscard]] const TacticFamily& family() const override { return family_; }
  [[nodiscard]] Result<std::vector<RankedTactic>> ranked() const override {
    return rank_tactics(family_, {1, 64, 64, Fp4Format::kNvfp4, OutputType::kBf16}, {0, 1});
  }

  ladder::Checked check(std::size_t tactic) override {
    static_cast<void>(machine.run(tactic, measure::Protocol::kCold, 1));
    machine.order.pop_back();
    if (wrong.contains(tactic)) return {measure::Verdict::kWrong, "rel_l2 0.5", 0.5, 1, 0};
    return {measure::Verdict::kOk, "", 1e-3, 1, true_ns_[tactic]};
  }
  Result<void> run(std::size_t id, measure::Protocol protocol, int calls) override {
    return machine.run(id, protocol, calls);
  }

 private:
  NumberedFamily family_;
  std::vector<double> true_ns_;
};

}  // namespace pinch::test
