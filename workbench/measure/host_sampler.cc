#include "workbench/measure/host_sampler.h"

#include <algorithm>
#include <cmath>

namespace pinch::measure {

namespace {

constexpr int kMaxCalls = 1 << 16;

}  // namespace

double HostSampler::read_clock_rate() {
  const double ghz = meter_.ghz();
  rates_.add(ghz);
  return ghz;
}

Result<Sample> HostSampler::sample(const Candidate& candidate, Protocol protocol, const Policy& policy) {
  const double estimate_ns = std::max(candidate.estimate_ns, 1.0);
  const int calls =
      static_cast<int>(std::clamp(std::ceil(policy.min_sample_ns / estimate_ns), 1.0, static_cast<double>(kMaxCalls)));
  const int untimed = estimate_ns < policy.long_call_ns ? 1 : 0;
  PINCH_TRY(runner_.ready(candidate.id, protocol, untimed + calls));
  if (untimed > 0) PINCH_TRY(runner_.run(candidate.id, protocol, untimed));
  clock_.ready();
  const double ghz_before = read_clock_rate();
  const double wall_start = clock_.wall_ns();
  const double cpu_start = clock_.cpu_ns();
  const Result<void> ran = runner_.run(candidate.id, protocol, calls);
  const double cpu_ns = clock_.cpu_ns() - cpu_start;
  const double wall_ns = clock_.wall_ns() - wall_start;
  PINCH_TRY(ran);
  const double ghz_after = read_clock_rate();
  const bool had_the_cores = cpu_ns >= policy.min_cpu_share * candidate.threads * wall_ns;
  // Without an untimed call the first reading is of whatever ran before, whose instructions may allow another rate.
  const bool clock_stood = untimed == 0 || std::abs(ghz_after / ghz_before - 1) <= policy.max_clock_move;
  return Sample{0, protocol, calls, wall_ns, cpu_ns, ghz_after, had_the_cores && clock_stood};
}

}  // namespace pinch::measure
