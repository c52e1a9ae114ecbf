// From samples to a pick: pure arithmetic, the same for a fresh measurement and for one read from the store.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "workbench/measure/policy.h"
#include "workbench/measure/statistics.h"
#include "workbench/store/tune_store.h"

namespace pinch::ladder {

struct Conclusion {
  std::string default_tactic;  ///< the point of rank 0
  std::string best;            ///< the first by rank among the ties of the fastest; empty where nothing was timed
  bool decided = true;         ///< false: the default could not be timed, so nothing is known to beat it and it stands
  std::string fastest;         ///< smallest median
  double regret = 0;           ///< median(default) / median(fastest); 0 where either has none
  /// Of the median over rounds of default / fastest, each round's two samples paired; nothing below five rounds,
  /// whose range covers the median in less than nine cases of ten.
  std::optional<measure::Interval> regret_interval;
  double aa_spread = 0;  ///< of the default against itself; infinite where the twin has no sample
  double tie_band = 0;   ///< medians within this fraction of the fastest were ties
};

/// Times of the ranking protocol decide. The band of ties is the policy's, or the A/A spread or the fastest one's noise
/// where those are wider; among ties the smallest rank wins, so that two tunes choose alike and the default stays
/// unless something beats it by more than noise. Fewer than three samples make no fastest where another has three.
Conclusion conclude(std::span<const store::Point> points, const measure::Policy& policy);

/// kTimeout for an ok point without samples, kUnstable for one with fewer than three accepted; else its verdict stands.
void settle_verdict(store::Point& point, const measure::Policy& policy);

}  // namespace pinch::ladder
