// pinch bench without its command line: ours beside other libraries, each checked, all interleaved.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "workbench/ladder/task.h"
#include "workbench/measure/rounds.h"
#include "workbench/measure/verdict.h"

namespace pinch::ladder {

struct BenchRequest {
  std::vector<std::string> tactics;  ///< besides the default
  bool all = false;                  ///< every legal tactic
  bool rivals = true;                ///< peers and yardsticks
  measure::Policy policy;
};

struct BenchRow {
  std::string name;  ///< of a tactic, or of what is timed beside them
  RowKind kind = RowKind::kTactic;
  bool is_default = false;
  std::string numerics;
  int threads = 1;
  std::size_t weight_bytes = 0;  ///< that one call reads
  measure::Verdict verdict = measure::Verdict::kOk;
  std::string why;
  std::optional<double> rel_l2;
  std::vector<measure::Sample> samples;
};

struct BenchReport {
  Work work;
  Resources resources;
  Machine machine;
  measure::Policy policy;
  Roofline roofline;
  std::vector<BenchRow> rows;       ///< ours, the default first, then the others
  std::vector<std::string> absent;  ///< what cannot run, with why
  measure::StopReason stop = measure::StopReason::kNoise;
  int rounds = 0;
  double clock_ghz = 0;
  double clock_drift = 0;
};

struct BenchHooks {
  std::function<void(const measure::RoundReport&)> round_ended;
  std::function<bool()> stop_requested;
};

/// Benchmarks the task. Errors: an invalid problem or one too large for the memory; kNotFound for an unknown tactic,
/// offering the nearest names; kIllegal where no tactic is legal. What fails or is wrong is a row that says so.
Result<BenchReport> bench(Task& task, const BenchRequest& request, const BenchHooks& hooks);

}  // namespace pinch::ladder
