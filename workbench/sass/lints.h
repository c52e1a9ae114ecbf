// Findings about one kernel: each has an id, a place, why it costs and what to do.
#pragma once

#include <string>
#include <vector>

#include "workbench/sass/flow.h"
#include "workbench/sass/live_bits.h"
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

/// What must be known for a finding to be looked for: without a disassembler there are no operands, in text without
/// hex no control words, and PTX is in some files alone.
enum class Needs : std::uint8_t { kNames, kOperands, kControlWords, kPtx };
[[nodiscard]] std::string_view name_of(Needs needs);

/// Ids in the order in which they are looked for, with one line about each: what `pinch sass --list-lints` prints.
struct LintKind {
  std::string_view id, about;
  Needs needs = Needs::kNames;
};
[[nodiscard]] const std::vector<LintKind>& lint_kinds();

/// The kinds that were not looked for in `kernel`, for want of what they need.
[[nodiscard]] std::vector<LintKind> lints_not_run(const Kernel& kernel, const PtxFunction* ptx);

/// What the findings inside a loop look at. `live` answers for all loops of the kernel.
struct LoopContext {
  const Kernel& kernel;
  const Flow& flow;
  const LocalMemory& local;
  const Machine& machine;
  LiveBits& live;
};
/// Findings inside one loop; cycles are those of the machine's rates.
[[nodiscard]] std::vector<Lint> lint_loop(const LoopContext& context, const Loop& loop, const LoopCode& code);

/// Findings that concern the kernel as a whole. `ptx` is its function, or null where the file holds none.
[[nodiscard]] std::vector<Lint> lint_kernel(const Kernel& kernel, const Flow& flow, const PtxFunction* ptx);

/// Findings in PTX: a missing proxy fence and algebra candidates. Rates are those of `machine`.
[[nodiscard]] std::vector<Lint> lint_ptx(const PtxFunction& function, const Machine& machine);

}  // namespace pinch::sass
