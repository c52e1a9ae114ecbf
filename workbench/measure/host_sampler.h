// Samples of calls on the CPU: wall time of one or more calls, counted where the process had its cores and the clock
// rate stood.
#pragma once

#include "workbench/measure/add_chain.h"
#include "workbench/measure/clock.h"
#include "workbench/measure/sampler.h"

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

class HostSampler final : public Sampler {
 public:
  HostSampler(Runner& runner, Clock& clock, FrequencyMeter& meter) : runner_(runner), clock_(clock), meter_(meter) {}

  Result<Sample> sample(const Candidate& candidate, Protocol protocol, const Policy& policy) override;
  [[nodiscard]] ClockRates clock_rates() const override { return rates_; }

 private:
  double read_clock_rate();

  Runner& runner_;
  Clock& clock_;
  FrequencyMeter& meter_;
  ClockRates rates_;
};

}  // namespace pinch::measure
