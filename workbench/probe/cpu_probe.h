// Rates and latencies of x86-64 instructions on this core, with no performance counter: time against a chain of
// dependent additions, which take a cycle each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/measure/clock.h"
#include "workbench/probe/cpu_code.h"
#include "workbench/probe/model.h"

namespace pinch::probe {

struct CpuProbe {
  std::string name;  ///< "fma.512"
  CpuOperation operation;
  const char* feature;  ///< that the CPU must have, as __builtin_cpu_supports names it
  std::string about;
};

/// Every CPU probe, whatever this machine can run.
[[nodiscard]] const std::vector<CpuProbe>& cpu_probes();
[[nodiscard]] bool runs_here(const CpuProbe& probe);
/// Pairs that are measured by default, by name.
[[nodiscard]] const std::vector<std::pair<std::string, std::string>>& cpu_pairs();

struct CpuOptions {
  std::string only;  ///< regular expression of names; empty for all
  bool pairs = true;
  bool quick = false;  ///< fewer repeats, no memory beyond the second level
  std::function<void(double done, double total, const std::string& what)> progress;
};

/// Measures on the calling thread. Values: instructions a cycle a core, latencies in cycles, memory in GB/s.
/// Errors: kInvalidArgument where `only` matches nothing, naming what exists; kUnsupported off x86-64.
Result<Model> measure_cpu(const CpuOptions& options, measure::Clock& clock);

struct Cycles {
  double value = 0;   ///< an instruction
  double spread = 0;  ///< of groups of repeats: (most - least) / least
};

/// Cycles an instruction of `parts`, from loops of `length` and twice that, so that the loop's own cost cancels.
Result<Cycles> time_loop(const std::vector<Part>& parts, int length, void* buffer, int repeats, measure::Clock& clock);

}  // namespace pinch::probe
