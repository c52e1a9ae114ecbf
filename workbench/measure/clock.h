// The two clocks a sample is read from. An interface, so that the whole protocol runs on simulated time in tests.
#pragma once

#include <vector>

namespace pinch::measure {

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual double wall_ns() = 0;  ///< monotonic
  [[nodiscard]] virtual double cpu_ns() = 0;   ///< CPU time of all threads of this process
  /// Whatever should not be done within a sample; called before each.
  virtual void ready() {}
};

/// CLOCK_MONOTONIC, and the sum of the threads' own CPU clocks: the process clock counts a thread that runs on another
/// core only up to that core's last tick, which is off by milliseconds.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] double wall_ns() override;
  [[nodiscard]] double cpu_ns() override;
  void ready() override;  ///< lists the threads; cpu_ns() counts those

 private:
  std::vector<int> threads_;  ///< kernel ids
};

}  // namespace pinch::measure
