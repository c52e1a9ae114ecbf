// A few steps of a trace as spans: what a timeline draws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workbench/trace/analysis.h"
#include "workbench/trace/reader.h"

namespace pinch::trace {

struct Timeline {
  enum class Kind { kStep, kWait, kPhase };
  struct Span {
    std::size_t lane = 0;
    double begin_ns = 0, end_ns = 0;  ///< within the window; the same of a phase, which begins there
    std::size_t role = 0;             ///< of the step, or of the step around it
    Kind kind = Kind::kStep;
    std::string what;  ///< "decode step 12", "waits for full", "phase scales"
  };
  std::uint32_t group = 0;
  bool steady = false;              ///< the window is out of a steady state; else none was found
  double begin_ns = 0, end_ns = 0;  ///< since the trace began
  std::vector<std::string> roles;
  std::vector<std::string> lanes;  ///< a thread or warp each, named by its number and roles
  std::vector<Span> spans;         ///< by lane, then by time; waits and phases follow their step
  bool cut = false;                ///< there was too much to show
};

/// `steps` periods of the critical role out of the steady state of the first group that has one, else of the first
/// group. Empty for a trace without a group.
Timeline timeline_of(const TraceFile& file, const Analysis& analysis, int steps);

}  // namespace pinch::trace
