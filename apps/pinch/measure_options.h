// The options that say how long and on what to measure; the same in tune and bench.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "pinch/result.h"
#include "workbench/measure/policy.h"

namespace pinch::cli {

class MeasureOptionGroup {
 public:
  /// --budget --cold-set
  void add_to(CLI::App& command);
  /// On a CUDA device the budget is shorter where none was given, for a call is. Errors: a budget or a set that is not
  /// above 0; a set for a CUDA device, whose cold calls follow one read.
  [[nodiscard]] Result<measure::Policy> policy(bool on_cuda) const;

 private:
  double budget_s_ = measure::Policy{}.budget_s;
  std::int64_t cold_set_mib_ = 0;
  CLI::Option* budget_ = nullptr;
  CLI::Option* cold_set_ = nullptr;
};

}  // namespace pinch::cli
