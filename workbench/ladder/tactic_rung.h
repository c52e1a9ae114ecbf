// The tactic rung: is the default launch the best one? Ranks, checks each candidate against the reference, times the
// survivors in interleaved rounds, and says what the default costs against the best.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "workbench/ladder/journal.h"
#include "workbench/ladder/pick.h"
#include "workbench/ladder/subject.h"

namespace pinch::ladder {

struct RungOptions {
  measure::Policy policy;
  bool all = false;           ///< every legal tactic, whatever the budget
  bool default_only = false;  ///< no other than the default
  int random_every =
      5;  ///< where the budget does not reach all: one in so many comes from a random place of the ranking
};

/// What a person waiting wants to know.
struct Progress {
  std::string_view phase;  ///< "check", "measure" or "explain"
  std::size_t done = 0;    ///< checked candidates, or rounds
  std::size_t total = 0;   ///< legal candidates, or live ones
  double elapsed_s = 0;
};

struct RungHooks {
  std::function<void(const Progress&)> progress;
  std::function<bool()> stop_requested;
};

struct RungResult {
  std::vector<store::Point> points;  ///< by rank, the default first
  Conclusion conclusion;
  std::size_t legal = 0;  ///< tactics legal for the problem; points.size() of them were reached
  measure::StopReason stop = measure::StopReason::kNoise;
  int rounds = 0;
  double clock_ghz = 0;
  double clock_drift = 0;
  double elapsed_s = 0;
};

/// Errors: what rank_tactics refuses; kIllegal where no candidate gave a right result, with the first one's reason.
/// `sampler` takes an index of the family, and only one that check() found ok.
Result<RungResult> run_tactic_rung(Subject& subject, measure::Sampler& sampler, measure::Clock& clock,
                                   const RungOptions& options, Journal& journal, const RungHooks& hooks = {});

/// The same with samples of calls on the CPU.
Result<RungResult> run_tactic_rung(HostSubject& subject, measure::Clock& clock, measure::FrequencyMeter& meter,
                                   const RungOptions& options, Journal& journal, const RungHooks& hooks = {});

}  // namespace pinch::ladder
