// The core's clock rate, with no hardware counter: a chain of dependent register additions takes one cycle each on
// every x86-64 core, so its time tells the frequency, and a change of its time tells that the frequency moved.
#pragma once

#include <cstdint>

#include "workbench/measure/clock.h"

namespace pinch::measure {

class FrequencyMeter {
 public:
  virtual ~FrequencyMeter() = default;
  [[nodiscard]] virtual double ghz() = 0;
};

/// Runs the chain on the calling thread. One reading is the fastest of several short chains: an interrupt can only slow
/// a chain down. About 0.03 ms a reading.
class AddChain final : public FrequencyMeter {
 public:
  explicit AddChain(Clock& clock) : clock_(clock) {}
  [[nodiscard]] double ghz() override;

 private:
  Clock& clock_;
};

/// `additions` (rounded up to a multiple of 32) dependent additions; the sum keeps the chain alive.
std::uint64_t run_add_chain(std::int64_t additions);

}  // namespace pinch::measure
