// One sample of one candidate: what is kept of it, and who takes it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "pinch/result.h"
#include "workbench/measure/policy.h"

namespace pinch::measure {

struct Candidate {
  std::size_t id = 0;      ///< handed to the sampler; two candidates with one id are an A/A pair
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

/// Clock rates that were read so far; 0 where none was.
struct ClockRates {
  double lowest_ghz = 0;
  double highest_ghz = 0;

  void add(double ghz) {
    lowest_ghz = highest_ghz == 0 || ghz < lowest_ghz ? ghz : lowest_ghz;
    highest_ghz = ghz > highest_ghz ? ghz : highest_ghz;
  }
  /// 1 - lowest / highest.
  [[nodiscard]] double drift() const { return highest_ghz > 0 ? 1 - lowest_ghz / highest_ghz : 0; }
};

/// Takes samples. Where the time comes from is its own: a CPU's clocks (host_sampler.h), a device's events.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// One sample; `round` is the caller's to set. Errors: a call that failed, which ends the candidate.
  virtual Result<Sample> sample(const Candidate& candidate, Protocol protocol, const Policy& policy) = 0;
  [[nodiscard]] virtual ClockRates clock_rates() const = 0;
};

}  // namespace pinch::measure
