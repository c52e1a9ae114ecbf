// A machine on which time is computed: calls take their true time, times noise, plus what a test plants (stalls of
// other processes, moves of the clock rate, calls that fail). The measuring protocol runs on it unchanged.
#pragma once

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "workbench/measure/rounds.h"

namespace pinch::test {

class SimulatedMachine final : public measure::Runner, public measure::Clock, public measure::FrequencyMeter {
 public:
  SimulatedMachine(std::vector<double> true_ns, std::uint64_t seed) : true_ns_(std::move(true_ns)), random_(seed) {}

  double noise = 0.005;            ///< standard deviation of the logarithm of a call's time
  double stall_chance = 0.0;       ///< of one run losing the processor
  double stall_ns = 5e6;           ///< how long it is lost
  double cold_factor = 1.0;        ///< what a cold call costs more
  int threads = 1;                 ///< CPU time passes this many times as fast as wall time
  std::size_t failing = SIZE_MAX;  ///< the candidate whose calls fail
  std::function<double(double wall_ns)> clock_ghz = [](double) { return 3.0; };
  std::vector<std::size_t> order;  ///< candidate of every run, in order

  double wall_ns() override { return wall_ns_; }
  double cpu_ns() override { return cpu_ns_; }
  double ghz() override {
    spend(1e5);
    return clock_ghz(wall_ns_);
  }

  Result<void> run(std::size_t id, measure::Protocol protocol, int calls) override {
    order.push_back(id);
    if (id == failing) return Error{ErrorCode::kIo, "planted failure", "simulated"};
    std::normal_distribution<double> jitter(0, noise);
    double ns = true_ns_[id] * calls * std::exp(jitter(random_)) * 3.0 / clock_ghz(wall_ns_);
    if (protocol == measure::Protocol::kCold) ns *= cold_factor;
    spend(ns);
    if (std::uniform_real_distribution<double>(0, 1)(random_) < stall_chance) wall_ns_ += stall_ns;
    return {};
  }

 private:
  void spend(double ns) {
    wall_ns_ += ns;
    cpu_ns_ += ns * threads;
  }

  std::vector<double> true_ns_;
  std::mt19937_64 random_;
  double wall_ns_ = 0;
  double cpu_ns_ = 0;
};

}  // namespace pinch::test
