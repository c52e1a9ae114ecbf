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
#include "workbench/measure/add_chain.h"
#include "workbench/measure/clock.h"
#include "workbench/measure/policy.h"

namespace pinch::measure {

/// What is timed.
class Runner {
 public:
  virtual ~Runner() = default;
  /// Whatever the next `calls` calls need that is not to be timed.
  virtual Result<void> ready(std::size_t /*id*/, Protocol /*protocol*/, int /*calls*/) { return {}; }
  /// Calls candidate `id` `calls` times; each cold call takes the next weights of a set larger than the caches.
  virtual Result<void> run(std::size_t id, Protocol protocol, int calls) = 0;
};

struct Candidate {
  std::size_t id = 0;      ///< handed to Runner; two candidates with one id are an A/A pair
  int threads = 1;         ///< that a call keeps busy
  double estimate_ns = 0;  ///< of one call; sets the calls a sample takes
  bool keep = false;       ///< never dropped, however slow
};

/// One raw sample. Rejected ones are kept too, and never summarised.
struct Sample {
  int round = 0;
  Protocol protocol = Protocol::kCold;
  int calls = 1;
  double wall_ns = 0;  ///< of the whole sample
  double cpu_ns = 0;
  double clock_ghz = 0;  ///< read just after it
  bool accepted = false;

  [[nodiscard]] double ns_per_call() const { return wall_ns / calls; }
};

/// The accepted times of one call, in the order of the rounds.
std::vector<double> accepted_ns(std::span<const Sample> samples, Protocol protocol);

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
Measurement measure_rounds(Runner& runner, Clock& clock, FrequencyMeter& meter, std::span<const Candidate> candidates,
                           const Policy& policy, const Hooks& hooks = {});

}  // namespace pinch::measure
