// Interleaved rounds: every round takes one sample of every live candidate in a fresh random order, so that whatever
// drifts (clock rate, neighbours, temperature) falls on all of them alike.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pinch/result.h"
#include "workbench/measure/host_sampler.h"
#include "workbench/measure/sampler.h"

namespace pinch::measure {

struct Track {
  std::vector<Sample> samples;
  std::optional<Error> failed;  ///< the call that failed ended this candidate
  bool dropped = false;         ///< left early, being clearly slower
};

enum class StopReason : std::uint8_t { kNoise, kBudget, kRounds, kInterrupted };
std::string_view to_string(StopReason reason);

struct Measurement {
  std::vector<Track> tracks;  ///< one a candidate, in their order
  StopReason stop = StopReason::kNoise;
  int rounds = 0;
  double clock_ghz = 0;    ///< highest reading
  double clock_drift = 0;  ///< 1 - lowest / highest reading
};

/// What a caller hears while rounds go by.
struct RoundReport {
  int round = 0;
  std::size_t live = 0;
  double elapsed_s = 0;
  const Measurement& so_far;  ///< samples of this round are the ones whose round field equals `round`
};

struct Hooks {
  std::function<void(const RoundReport&)> round_ended;  ///< also after a partial last round
  std::function<bool()> stop_requested;                 ///< asked between samples
};

/// Measures the candidates until the noise target, the budget or the last round, whichever comes first. The budget
/// counts from the call.
Measurement measure_rounds(Sampler& sampler, Clock& clock, std::span<const Candidate> candidates, const Policy& policy,
                           const Hooks& hooks = {});

/// The same with samples of calls on the CPU.
Measurement measure_rounds(Runner& runner, Clock& clock, FrequencyMeter& meter, std::span<const Candidate> candidates,
                           const Policy& policy, const Hooks& hooks = {});

}  // namespace pinch::measure
