// Rates and latencies of x86-64 instructions on this core, with no performance counter: time against a chain of
// dependent additions, which take a cycle each.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
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

struct Cycles {
  double value = 0;   ///< an instruction
  double spread = 0;  ///< (most - least) / value of groups of repeats, without the one at either end
};

/// A loop of `length` instructions and one of twice that, which are timed, and what was found in the bytes of just
/// these two.
struct CpuLoops {
  std::vector<Part> parts;
  int length = 0;
  CpuLoop once, twice;
  std::vector<Proof> proofs;  ///< one a part: of the shorter loop, or of the longer where that alone fails
  [[nodiscard]] bool proved() const;
};

/// Errors: those of `assemble`.
using Assemble = std::function<Result<CpuLoop>(std::span<const Part>, int length)>;
Result<CpuLoops> assemble_loops(std::vector<Part> parts, int length, const Assemble& assemble = CpuLoop::assemble);

/// Cycles an instruction, as the difference of the two loops, so that the loop's own cost cancels. Errors: kUnsupported
/// where the clock makes no sense of them.
Result<Cycles> time_loops(const CpuLoops& loops, void* buffer, int repeats, measure::Clock& clock);

struct CpuOptions {
  std::string only;  ///< regular expression of names; empty for all
  bool pairs = true;
  bool quick = false;  ///< fewer repeats, no memory beyond the second level
  std::function<void(double done, double total, const std::string& what)> progress;
  // Tests plant a faulty assembler, and a core of known rates.
  Assemble assemble = CpuLoop::assemble;
  std::function<Result<Cycles>(const CpuLoops&, void* buffer, int repeats, measure::Clock&)> time = time_loops;
};

/// Measures on the calling thread. Values: instructions a cycle a core, latencies in cycles, memory in GB/s. A loop
/// that is not proved is not run. Errors: kInvalidArgument where `only` matches nothing, naming what exists;
/// kUnsupported off x86-64.
Result<Model> measure_cpu(const CpuOptions& options, measure::Clock& clock);

}  // namespace pinch::probe
