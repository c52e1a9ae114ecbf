// The two clocks a sample is read from. An interface, so that the whole protocol runs on simulated time in tests.
#pragma once

namespace pinch::measure {

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual double wall_ns() = 0;  ///< monotonic
  [[nodiscard]] virtual double cpu_ns() = 0;   ///< CPU time of all threads of this process
};

/// CLOCK_MONOTONIC and CLOCK_PROCESS_CPUTIME_ID.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] double wall_ns() override;
  [[nodiscard]] double cpu_ns() override;
};

}  // namespace pinch::measure
