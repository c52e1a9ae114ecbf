#include "workbench/sass/lints.h"

#include <fmt/core.h>

#include <algorithm>

#include "workbench/sass/wgmma.h"

namespace pinch::sass {
namespace {

// What of the parts of a specialised kernel its code holds.
struct Parts {
  bool copies = false, multiplies = false, waits = false;
};
Parts parts_of(const Kernel& kernel) {
  Parts parts;
  for (const Instruction& i : kernel.instructions) {
    if (!i.known()) continue;
    switch (i.mnemonic.front()) {  // few begin so, and it is asked of every instruction
      case 'U':
        parts.copies |= i.is("UTMALDG") || i.is("UBLKCP");
        break;
      case 'H':
      case 'I':
      case 'Q':
        parts.multiplies |= is_wgmma(i.base());
        break;
      case 'S':
        parts.waits |= i.is("SYNCS");
        break;
      default:
        break;
    }
  }
  return parts;
}

}  // namespace

std::string_view name_of(Needs needs) {
  constexpr std::string_view kNames[] = {"names", "operands", "control words", "PTX"};
  return kNames[static_cast<std::size_t>(needs)];
}

const std::vector<LintKind>& lint_kinds() {
  static const std::vector<LintKind> kinds = {
      {"wgmma-serialised", "a wait after every wgmma"},
      {"umov-between-tensor", "UMOV or R2UR between tensor instructions"},
      {"mask-after-pack", "a mask after an 8-bit pack that changes nothing", Needs::kOperands},
      {"call-in-loop", "a CALL in a loop"},
      {"exp2-denormal", "compare and multiplies around a non-ftz ex2", Needs::kOperands},
      {"division", "an exact division sequence in a loop"},
      {"integer-division", "an integer division in a loop", Needs::kOperands},
      {"drain", "a stall count of 0 in a loop", Needs::kControlWords},
      {"nop-delay", "NOP that only wait"},
      {"scalar-loads", "neighbouring words loaded one by one", Needs::kOperands},
      {"spill-in-loop", "spilled registers in a loop"},
      {"dynamic-array", "a local array indexed at run time"},
      {"setmaxnreg-missing", "specialised warps that share one register count"},
      {"setmaxnreg-ignored", "setmaxnreg in PTX that ptxas left out", Needs::kPtx},
      {"missing-proxy-fence", "generic shared stores read by the async proxy without a fence", Needs::kPtx},
      {"algebra-scale-after-exp2", "a multiply by a constant after ex2", Needs::kPtx},
      {"algebra-max-after-exp2", "a maximum of ex2 results", Needs::kPtx},
      {"algebra-division-by-group", "several divisions by one value", Needs::kPtx}};
  return kinds;
}

std::vector<LintKind> lints_not_run(const Kernel& kernel, const PtxFunction* ptx) {
  const auto& code = kernel.instructions;
  const bool has_operands =
      std::any_of(code.begin(), code.end(), [](const Instruction& i) { return !i.operands.empty(); });
  std::vector<LintKind> not_run;
  for (const LintKind& kind : lint_kinds()) {
    if ((kind.needs == Needs::kOperands && !has_operands) || (kind.needs == Needs::kPtx && ptx == nullptr) ||
        (kind.needs == Needs::kControlWords && !kernel.has_words()))
      not_run.push_back(kind);
  }
  return not_run;
}

std::vector<Lint> lint_kernel(const Kernel& kernel, const Flow& flow, const PtxFunction* ptx) {
  std::vector<Lint> found;
  const bool sets_registers = !flow.roles.empty();
  if (ptx != nullptr && ptx->uses("setmaxnreg") && !sets_registers) {
    found.push_back({"setmaxnreg-ignored", 0, ptx->line_of("setmaxnreg"),
                     "PTX asks for setmaxnreg, the code has no USETMAXREG: ptxas left it out, and producers hold the "
                     "registers that consumers need; "
                     "give the kernel __launch_bounds__(threads, 1) and make each role one branch of a single if",
                     0});
  }
  const Parts parts = parts_of(kernel);
  if (!sets_registers && parts.copies && parts.multiplies && parts.waits &&
      !(ptx != nullptr && ptx->uses("setmaxnreg"))) {
    found.push_back({"setmaxnreg-missing", 0, 0,
                     fmt::format("bulk copies and wgmma run under one count of {} registers; where producer and "
                                 "consumer are separate warps, setmaxnreg moves registers from "
                                 "the first to the second",
                                 kernel.registers),
                     0});
  }
  return found;
}

}  // namespace pinch::sass
