// What a mark of pinch/trace.h costs on this machine: the median over repeats of a loop of marks, less the same loop
// without.
#define PINCH_TRACE_LEVEL 2
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "pinch/trace.h"

namespace {

constexpr unsigned kMarks = 1 << 16;
constexpr int kRepeats = 101;

template <class Body>
double median_ns(Body body) {
  std::vector<double> samples;
  for (int r = 0; r < kRepeats; ++r) {
    const std::uint64_t begin = pinch::trace::wall_ns();
    for (unsigned i = 0; i < kMarks; ++i) {
      body(i);
      asm volatile("" ::: "memory");
    }
    samples.push_back(static_cast<double>(pinch::trace::wall_ns() - begin) / kMarks);
  }
  std::nth_element(samples.begin(), samples.begin() + kRepeats / 2, samples.end());
  return samples[kRepeats / 2];
}

}  // namespace

int main() {
  const double empty = median_ns([](unsigned) {});
  const double clock = median_ns([](unsigned) { static_cast<void>(pinch::trace::kClock()); });
  const double closed = median_ns([](unsigned i) { PINCH_TRACE_STEP(0, i); });
  const std::string path = (std::filesystem::temp_directory_path() / "pinch_trace_cost").string();
  pinch::trace::Session session(pinch::trace::kLevel, "trace_cost", {{{"role"}}, {{"wait"}}, {"phase"}}, path);
  const double step = median_ns([](unsigned i) { PINCH_TRACE_STEP(0, i); });
  const double phase = median_ns([](unsigned) { PINCH_TRACE_PHASE(0); });
  const double wait = median_ns([](unsigned) { PINCH_TRACE_WAIT(0); });
  fmt::print(
      "ns: a step {:.1f}, a phase {:.1f}, a wait {:.1f}, which is two events, its begin and its end, so {:.1f} each; "
      "one "
      "clock read {:.1f}; a mark while nothing records {:.1f}\n",
      step - empty, phase - empty, wait - empty, (wait - empty) / 2, clock - empty, closed - empty);
  const bool written = session.finish();
  std::filesystem::remove(path);
  return written ? 0 : 1;
}
