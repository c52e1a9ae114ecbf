// What tracing cost: the same program untraced, coarse and detailed, in rounds.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "pinch/trace_file.h"
#include "workbench/measure/statistics.h"

namespace pinch::trace {

/// Times of one level, one a round; empty where the level did not run.
struct LevelTimes {
  std::vector<double> ns;
  std::string why;  ///< it did not run
};

struct Cost {
  std::array<LevelTimes, 3> times;  ///< by Level
  std::string timed_by;             ///< "runs" (timed by the program), "process", or "calls"

  /// The median over rounds of time / untraced time, less 1. Nothing where one of the two is missing.
  [[nodiscard]] std::optional<double> inflation(Level level) const;
  /// How well that is known: the interval of the median (95% from 6 rounds on, else the range).
  [[nodiscard]] measure::Interval inflation_interval(Level level) const;
  /// How well the untraced time is known, as a fraction: half the interval of its median.
  [[nodiscard]] double noise() const;
  /// Coarse figures may be read as absolute ones: inflation is known and at most kMostInflation.
  [[nodiscard]] bool absolute() const;
};

inline constexpr double kMostInflation = 0.05;

/// Asks `time` for each level in `rounds` rounds, in an order that turns from round to round. A level that answers
/// kNotFound or kUnsupported is left out, with the reason; other errors end the run.
Result<Cost> measure_cost(int rounds, const std::function<Result<double>(Level)>& time);

/// A program that writes a trace file ($PINCH_TRACE_FILE). "${level}" in its words is replaced by off, coarse or
/// detailed, so that a binary built at each level can be named; $PINCH_TRACE holds the same. Without "${level}" the one
/// binary runs, at the level that it was built with, and nothing is known about what that cost.
struct Program {
  std::vector<std::string> argv;
  double timeout_s = 0;
  int rounds = 7;
  Level level = Level::kCoarse;  ///< whose file is kept
};

struct Traced {
  Cost cost;
  std::string path;    ///< of the trace, in the folder that was given
  std::string tactic;  ///< of a kernel of this library; else empty
};

/// Runs it and leaves the trace of the last round in `folder`. Errors: kNotFound for a program that is not there;
/// kIllegal for one that fails; kCorrupt for a file that is no trace; kInvalidArgument where no trace is written, or
/// one of another level than was asked for; kInterrupted.
Result<Traced> trace_program(const Program& program, const std::string& folder,
                             const std::function<bool()>& stop_requested = {});

}  // namespace pinch::trace
