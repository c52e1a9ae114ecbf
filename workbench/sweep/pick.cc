#include "workbench/sweep/pick.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace pinch::sweep {
namespace {

using measure::Verdict;

constexpr double kWidestBand = 0.05;       // on a louder machine equal times say nothing
constexpr std::size_t kFewestSamples = 3;  // nor do one or two of them

double median(const std::vector<double>& values) {
  return measure::summarize(values).median;
}

}  // namespace

std::optional<double> Measured::metric() const {
  if (verdict != Verdict::kOk || samples.empty()) return std::nullopt;
  return median(samples);
}

void fold(Measured& point, const StoredTrial& stored, check::Change change) {
  const Trial& trial = stored.trial;
  ++point.trials;
  if (point.binary.empty()) point.binary = trial.binary;
  point.device = stored.key.device;
  if (point.verdict != Verdict::kOk) return;
  const bool changed = !point.outputs.empty() && !trial.outputs.empty() && point.outputs != trial.outputs;
  const std::string remark =
      fmt::format("the outputs of run {} differ from those of the first on the same inputs", point.trials);
  if (changed && change == check::Change::kReorder) {
    point.verdict = Verdict::kUnstable;
    point.detail = remark + (trial.detail.empty() ? "" : "; " + trial.detail);
    return;
  }
  if (trial.verdict != Verdict::kOk) {
    point.verdict = trial.verdict;
    point.detail = trial.detail;
    point.err = trial.err;
    return;
  }
  if (!trial.detail.empty()) point.detail = trial.detail;
  if (changed) point.detail = remark;
  if (point.outputs.empty()) point.outputs = trial.outputs;
  if (trial.samples.empty()) return;
  const double value = median(trial.samples);
  switch (stored.key.role) {
    case Role::kSample:
      point.samples.push_back(value);
      point.rounds.push_back(stored.key.round);
      break;
    case Role::kTwin:
      point.twin.push_back(value);
      break;
    case Role::kConfirm:
      point.confirm[stored.key.round] = value;
      break;
  }
}

Costs::Costs(const std::vector<Measured>& points, std::size_t standard, bool lower_is_better)
    : lower_is_better_(lower_is_better) {
  if (standard >= points.size()) return;
  for (const Measured& point : points) {
    if (point.choice == points[standard].choice && point.metric()) standards_.emplace(point.device, &point);
  }
  first_ = standard_beside(points[standard]);
}

std::optional<double> Costs::of(const Measured& point) const {
  const auto metric = point.metric();
  if (!metric) return std::nullopt;
  const Measured* beside = standard_beside(point);
  if (beside == first_ || beside == nullptr || first_ == nullptr) return of(*metric);
  return of(*metric) * of(*first_->metric()) / of(*beside->metric());
}

const Measured* Costs::standard_beside(const Measured& point) const {
  const auto found = standards_.find(point.device);
  return found == standards_.end() ? nullptr : found->second;
}

double Costs::ratio(const Measured& a, const Measured& b) const {
  const Measured* beside_a = standard_beside(a);
  const Measured* beside_b = standard_beside(b);
  if (a.device == b.device || beside_a == nullptr || beside_b == nullptr) return ratio_on_one_device(a, b);
  return ratio_on_one_device(a, *beside_a) / ratio_on_one_device(b, *beside_b);
}

double Costs::ratio_on_one_device(const Measured& a, const Measured& b) const {
  std::map<int, double> of_b;
  for (std::size_t i = 0; i < b.samples.size(); ++i) of_b[b.rounds[i]] = b.samples[i];
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.samples.size(); ++i) {
    if (const auto found = of_b.find(a.rounds[i]); found != of_b.end()) ratios.push_back(a.samples[i] / found->second);
  }
  constexpr std::size_t kFewestPairs = 3;
  const double ratio = ratios.size() >= kFewestPairs ? median(ratios) : *a.metric() / *b.metric();
  return lower_is_better_ ? ratio : 1 / ratio;
}

std::vector<std::size_t> contenders(const std::vector<Measured>& points, std::size_t standard, const Pick& pick,
                                    const PickPolicy& policy) {
  const Costs costs(points, standard, policy.lower_is_better);
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < points.size() && pick.fastest != nullptr; ++i) {
    if (points[i].metric() && costs.ratio(points[i], *pick.fastest) <= 1 + 2 * pick.band) list.push_back(i);
  }
  return list;
}

Pick pick(const std::vector<Measured>& points, std::size_t standard, const PickPolicy& policy) {
  Pick result;
  const Costs costs(points, standard, policy.lower_is_better);
  const Measured* origin = standard < points.size() && points[standard].metric() ? &points[standard] : nullptr;
  const auto elsewhere = [&](const Measured& point) {
    return &point != &points[standard] && point.choice == points[standard].choice;
  };
  for (const Measured& point : points) {
    const auto cost = elsewhere(point) ? std::nullopt : costs.of(point);
    if (cost && (result.fastest == nullptr || *cost < *costs.of(*result.fastest))) result.fastest = &point;
  }
  if (result.fastest == nullptr) return result;
  result.aa_spread = std::numeric_limits<double>::infinity();
  for (const Measured& point : points) {
    if (point.choice != points[standard].choice || !point.metric()) continue;
    const double spread = measure::spread(point.samples, point.twin);
    if (std::isfinite(spread) && !(spread <= result.aa_spread && std::isfinite(result.aa_spread)))
      result.aa_spread = spread;
  }
  result.band = std::max(policy.tie_band, measure::relative_noise(result.fastest->samples));
  if (std::isfinite(result.aa_spread)) result.band = std::max(result.band, result.aa_spread);
  if (origin != nullptr) result.regret = costs.ratio(*origin, *result.fastest);
  const auto ties = [&](const Measured& point) {
    return point.metric() && costs.ratio(point, *result.fastest) <= 1 + result.band;
  };
  result.best = origin != nullptr && ties(*origin) ? origin : nullptr;
  for (const Measured& point : points) {
    if (result.best != nullptr || elsewhere(point) || !ties(point)) continue;
    const auto index = static_cast<int>(&point - points.data());
    const auto again = point.confirm.find(index);
    const Measured* beside = costs.standard_beside(point);
    if (beside != nullptr && again != point.confirm.end()) {
      const auto with_it = beside->confirm.find(index);
      const double standard_cost = costs.of(with_it != beside->confirm.end() ? with_it->second : *beside->metric());
      const double lead = costs.ratio(point, *beside);
      if (costs.of(again->second) / standard_cost > (1 + lead) / 2) continue;
    }
    result.best = &point;
    result.surprising = again == point.confirm.end();
  }
  if (result.best == nullptr) result.best = origin;  // every faster one was refuted
  return result;
}

std::vector<Finding> no_effect(const Subject& subject, const std::vector<Measured>& points, const Costs& costs,
                               double band) {
  std::vector<Finding> findings;
  for (std::size_t knob = 0; knob < subject.knobs.size(); ++knob) {
    if (subject.knobs[knob].values.size() < 2) continue;
    std::map<Choice, std::vector<const Measured*>> groups;
    for (const Measured& point : points) {
      Choice others = point.choice;
      others[knob] = 0;
      groups[others].push_back(&point);
    }
    // Without defines in it the build is one file whatever a knob says.
    bool by_binary = subject.knobs[knob].kind == KnobKind::kDefine;
    bool by_result = true, any = false;
    double widest = 0;
    std::size_t seen = 0;
    for (const auto& [others, group] : groups) {
      if (group.size() < 2) continue;
      any = true;
      seen = std::max(seen, group.size());
      const Measured& first = *group.front();
      for (const Measured* point : group) {
        by_binary = by_binary && !point->binary.empty() && point->binary == first.binary;
        by_result = by_result && point->metric() && point->samples.size() >= kFewestSamples && first.metric() &&
                    point->outputs == first.outputs;
        if (!by_result) continue;
        const double ratio = *costs.of(*point) / *costs.of(first);
        widest = std::max(widest, std::max(ratio, 1 / ratio) - 1);
      }
    }
    by_result = by_result && widest <= band && band <= kWidestBand;
    if (!any || seen < subject.knobs[knob].values.size() || (!by_binary && !by_result)) continue;
    findings.push_back({"no_effect", subject.knobs[knob].name,
                        by_binary
                            ? std::string("the build is the same file at all its values")
                            : fmt::format("{} and times within {:.1f}% of each other at all its values, band {:.1f}%",
                                          subject.outputs.empty() ? "no outputs to compare," : "equal outputs",
                                          100 * widest, 100 * band)});
  }
  return findings;
}

}  // namespace pinch::sweep
