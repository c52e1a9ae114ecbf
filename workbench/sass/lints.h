// Findings about one kernel: each has an id, a place, why it costs and what to do.
#pragma once

#include <string>
#include <vector>

#include "workbench/sass/flow.h"
#include "workbench/sass/local_memory.h"
#include "workbench/sass/machine.h"
#include "workbench/sass/program.h"
#include "workbench/sass/ptx.h"
#include "workbench/sass/simulate.h"

namespace pinch::sass {

struct Lint {
  std::string id;            ///< "wgmma-serialised"; stable
  std::uint32_t offset = 0;  ///< bytes into the kernel; 0 for a finding from PTX
  std::uint32_t line = 0;    ///< source line, or the PTX line for a finding from PTX; 0 where unknown
  std::string message;       ///< what it is, why it costs, what to do
  double saves_cycles = 0;   ///< of one warp an iteration, at most; 0 where it is not a matter of cycles
};

/// Ids in the order in which they are looked for, with one line about each: what `pinch sass --list-lints` prints.
struct LintKind {
  std::string_view id, about;
};
[[nodiscard]] const std::vector<LintKind>& lint_kinds();

/// Findings inside one loop.
[[nodiscard]] std::vector<Lint> lint_loop(const Kernel& kernel, const Loop& loop, const LoopCode& code,
                                          const LocalMemory& local);

/// Findings that concern the kernel as a whole. `ptx` is its function, or null where the file holds none.
[[nodiscard]] std::vector<Lint> lint_kernel(const Kernel& kernel, const Flow& flow, const PtxFunction* ptx);

/// Findings in PTX: a missing proxy fence and algebra candidates. Rates are those of `machine`.
[[nodiscard]] std::vector<Lint> lint_ptx(const PtxFunction& function, const Machine& machine);

}  // namespace pinch::sass
