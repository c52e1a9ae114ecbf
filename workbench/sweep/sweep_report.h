// What a sweep found, for people and for machines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "workbench/check/inputs.h"
#include "workbench/sweep/sweep.h"

namespace pinch::sweep {

/// A contract that was broken on purpose, and what came of it.
struct Demonstration {
  const Rule* rule = nullptr;
  std::string problem;
  Measured point;
};

struct Report {
  const Subject* subject = nullptr;
  std::string key, database, strategy;
  std::string device;                  ///< of a recording
  nlohmann::ordered_json environment;  ///< of this start; null where nothing was run
  std::size_t reused = 0;              ///< trials of earlier starts
  nlohmann::ordered_json starts;       ///< SweepStore::starts()
  std::uint64_t seed = 0;
  int repeats = 0;
  std::vector<ProblemResult> problems;
  std::vector<check::SavedInput> inputs;  ///< of the last problem
  std::vector<std::string> warnings;
  std::vector<Demonstration> demonstrations;

  /// Points that ran and did not end ok.
  [[nodiscard]] std::size_t failed() const;
  [[nodiscard]] bool interrupted() const;
};

nlohmann::ordered_json to_json(const Report& report);
/// The points of each problem, the best first; then the pick, the findings, what was refused.
std::string to_text(const Report& report);
/// One row a point, and one for the default on each further device: problem, knobs, verdict, metric, samples, device,
/// detail.
std::string to_csv(const Report& report);
/// The results format T4 1.0.0 that auto-tuners exchange.
nlohmann::ordered_json to_t4(const Report& report);

}  // namespace pinch::sweep
