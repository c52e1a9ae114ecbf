#include "workbench/ladder/pick.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace pinch::ladder {

namespace {

using measure::Protocol;
using measure::Sample;
using measure::Verdict;

constexpr std::size_t kMinAccepted = 3;
constexpr std::size_t kMinPairs = 5;

std::map<int, double> by_round(std::span<const Sample> samples, Protocol protocol) {
  std::map<int, double> times;
  for (const Sample& sample : samples) {
    if (sample.accepted && sample.protocol == protocol) times[sample.round] = sample.ns_per_call();
  }
  return times;
}

std::optional<measure::Interval> paired_ratio(const store::Point& over, const store::Point& under, Protocol protocol) {
  const std::map<int, double> denominators = by_round(under.samples, protocol);
  std::vector<double> ratios;
  for (const auto& [round, ns] : by_round(over.samples, protocol)) {
    if (const auto found = denominators.find(round); found != denominators.end()) ratios.push_back(ns / found->second);
  }
  if (ratios.size() < kMinPairs) return std::nullopt;
  std::sort(ratios.begin(), ratios.end());
  return measure::median_interval(ratios);
}

}  // namespace

Conclusion conclude(std::span<const store::Point> points, const measure::Policy& policy) {
  const Protocol protocol = policy.protocols.front();
  const auto times_of = [&](const store::Point& point) { return accepted_ns(point.samples, protocol); };
  const auto median_of = [&](const store::Point& point) { return measure::summarize(times_of(point)).median; };
  const auto timed = [&](const store::Point& point) {
    return point.verdict == Verdict::kOk && !times_of(point).empty();
  };

  std::size_t enough = 0;
  for (const store::Point& point : points) {
    if (timed(point)) enough = std::max(enough, std::min(kMinAccepted, times_of(point).size()));
  }

  Conclusion result;
  const store::Point* standard = nullptr;
  const store::Point* fastest = nullptr;
  for (const store::Point& point : points) {
    if (point.rank == 0) standard = &point;
    if (timed(point) && times_of(point).size() >= enough &&
        (fastest == nullptr || median_of(point) < median_of(*fastest)))
      fastest = &point;
  }
  if (standard != nullptr) {
    result.default_tactic = standard->tactic;
    result.aa_spread = measure::spread(times_of(*standard), accepted_ns(standard->twin, protocol));
  }
  const bool untimed =
      standard != nullptr && (standard->verdict == Verdict::kUnstable || standard->verdict == Verdict::kTimeout);
  if (untimed) {
    result.best = standard->tactic;
    result.decided = false;
    return result;
  }
  if (fastest == nullptr) return result;

  result.fastest = fastest->tactic;
  result.tie_band = std::max(policy.tie_band, measure::relative_noise(times_of(*fastest)));
  if (std::isfinite(result.aa_spread)) result.tie_band = std::max(result.tie_band, result.aa_spread);
  const double limit_ns = median_of(*fastest) * (1 + result.tie_band);
  const store::Point* best = fastest;
  for (const store::Point& point : points) {
    if (timed(point) && median_of(point) <= limit_ns && point.rank < best->rank) best = &point;
  }
  result.best = best->tactic;
  if (standard != nullptr && timed(*standard)) {
    result.regret = median_of(*standard) / median_of(*fastest);
    result.regret_interval = paired_ratio(*standard, *fastest, protocol);
  }
  return result;
}

void settle_verdict(store::Point& point, const measure::Policy& policy) {
  if (point.verdict != Verdict::kOk) return;
  const std::size_t accepted = accepted_ns(point.samples, policy.protocols.front()).size();
  const auto taken =
      static_cast<std::size_t>(std::count_if(point.samples.begin(), point.samples.end(), [&](const Sample& sample) {
        return sample.protocol == policy.protocols.front();
      }));
  if (taken == 0) {
    point.verdict = Verdict::kTimeout;
    point.why = "measuring ended before it was timed; give a larger --budget";
  } else if (accepted < kMinAccepted && accepted < taken) {
    point.verdict = Verdict::kUnstable;
    point.why =
        fmt::format("{} of {} samples had the cores to themselves; free the machine and tune again", accepted, taken);
  }
}

}  // namespace pinch::ladder
