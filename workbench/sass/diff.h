// Two builds compared, kernel by kernel, and a build held against a stored baseline.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/sass/analysis.h"

namespace pinch::sass {

/// kSame: the same instructions with the same control codes: the same words where both sides have them. kSchedule: the
/// same instructions and resources, in another order or with other control codes or registers. kResources: the same
/// instructions, but other registers, frame or shared memory; what one side does not say is no difference. kCode: other
/// instructions.
enum class Verdict { kSame, kSchedule, kResources, kCode };
[[nodiscard]] std::string_view name_of(Verdict verdict);

struct LoopPair {
  const LoopReport *a = nullptr, *b = nullptr;
};

struct KernelPair {
  const KernelReport *a = nullptr, *b = nullptr;
  bool by_name = true;  ///< else by shape: the name changed, the instructions hardly
  Verdict verdict = Verdict::kSame;
  std::vector<LoopPair> loops;
};

struct ProgramDiff {
  std::vector<KernelPair> kernels;
  std::vector<const KernelReport*> only_a, only_b;
};

/// Pairs kernels of the same arch by name, then what is left by instruction mix; loops by depth and mix, in order.
/// Errors: kInvalidArgument, naming the kernel, where the words of a pair do not settle it and only one side is named
/// by the opcode map.
Result<ProgramDiff> diff(const std::vector<KernelReport>& a, const std::vector<KernelReport>& b);
[[nodiscard]] nlohmann::ordered_json to_json(const ProgramDiff& diff, const AnalysisOptions& options);
[[nodiscard]] std::string to_text(const ProgramDiff& diff, const AnalysisOptions& options);

/// How much worse than the baseline a kernel may be.
struct GateThresholds {
  int registers = 0;          ///< more a thread
  int frame_bytes = 0;        ///< more local memory of a thread
  int shared_bytes = 0;       ///< more static shared memory of a block
  double cycles_percent = 2;  ///< more simulated or bound cycles of a loop
  int local_accesses = 0;     ///< more spill and array instructions
  int lints = 0;              ///< more findings
  bool allow_missing = false;
};

struct GateFinding {
  std::string kernel, arch, what;  ///< "loop 0x1b0: simulated 41 cycles, baseline 33 (+24%, allowed +2%)"
};

struct GateResult {
  int compared = 0;
  std::vector<GateFinding> failures;
  std::vector<GateFinding> unjudged;  ///< what neither side knows, and kernels that the baseline does not have
};

/// Holds `current`, the document of `pinch sass --json` over the files at hand, against `baseline`, one written
/// earlier. Kernels are matched by name and arch; loops by their order. What the baseline knows and `current` does not
/// is a failure: it cannot be shown to hold. Errors: kCorrupt, naming the field, where the baseline is no such
/// document; kInvalidArgument where it holds no kernel, where none is compared, and where the two were named by
/// different roads (the opcode map knows no operands, and so finds less).
Result<GateResult> gate(const nlohmann::ordered_json& baseline, const nlohmann::ordered_json& current,
                        const GateThresholds& thresholds);

}  // namespace pinch::sass
