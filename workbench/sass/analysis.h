// All that `pinch sass` says about a program, as data; printing is the caller's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/sass/flow.h"
#include "workbench/sass/interleave.h"
#include "workbench/sass/lints.h"
#include "workbench/sass/local_memory.h"
#include "workbench/sass/machine.h"
#include "workbench/sass/program.h"
#include "workbench/sass/simulate.h"

namespace pinch::sass {

struct AnalysisOptions {
  std::string arch;                       ///< of text that does not name one; else ignored
  int warps = 1;                          ///< of one sub-partition, all in the same loop
  int sub_partitions = kSubPartitions;    ///< of the SM, 1 to 4, that run it
  std::map<std::string, int> role_warps;  ///< instead of `warps`, for loops of a role: {"consumer", 8}
  std::vector<UnitPair> pairs = {{}};     ///< for transitions
};

using InstructionMix = std::map<std::string, int, std::less<>>;

struct LoopReport {
  std::uint32_t begin = 0, end = 0;  ///< bytes, [begin, end)
  std::uint32_t line = 0;            ///< source line of its first instruction
  int depth = 1, instructions = 0;
  bool spins = false;
  bool branches = false;  ///< counted is an iteration that takes its products' branches; else what every one executes
  std::vector<int> path;  ///< instructions that are counted
  std::string role;
  std::array<double, kPipes> pipes{};  ///< cycles an iteration of one warp takes of each; pipes[0] is issue
  int unlisted = 0;                    ///< instructions that the machine model has no row for
  int uncalibrated = 0;                ///< instructions whose rate was not measured on the device
  double bound_cycles = 0;             ///< the largest of `pipes`
  Pipe bound_by = Pipe::kIssue;
  std::optional<double> dependency_cycles;  ///< none where operands are not known
  int warps = 1;
  /// An iteration of all `warps`, under the policy that fits the device; none where the text has no control words.
  std::optional<double> simulated_cycles, greedy_cycles, fair_cycles;
  int global_bytes = 0, shared_bytes = 0;   ///< that one thread's loads and stores move an iteration
  std::vector<Interleaving> interleavings;  ///< in the order of AnalysisOptions::pairs
  std::optional<LoadDistance> loads;        ///< none where operands are not known
  int unroll = 1, reused = 0;
  InstructionMix mix;            ///< instructions by base mnemonic
  InstructionMix opcodes;        ///< the same by whole mnemonic, as far as it is known
  std::array<int, 16> stalls{};  ///< histogram of stall counts
  std::vector<Lint> lints;

  /// What no schedule beats: the bound of all warps, and at least the dependency bound where it is known.
  [[nodiscard]] double least_cycles() const;
  /// Simulated time over the bound of all warps, which both roads to names know; none where nothing is simulated.
  [[nodiscard]] std::optional<double> slack() const;
};

struct KernelReport {
  const Kernel* kernel = nullptr;
  Flow flow;
  LocalMemory local;
  bool calibrated = false;  ///< every rate used was measured on the device
  std::vector<LoopReport> loops;
  std::vector<Lint> lints;
  std::vector<LintKind> lints_not_run;
};

/// Errors: kInvalidArgument, naming the kernel, for an arch without a machine model and where no arch is known.
Result<KernelReport> analyse_kernel(const Kernel& kernel, const PtxFunction* ptx, const AnalysisOptions& options);

/// Errors: kInvalidArgument, naming it, where a unit of a pair is no pipe, no instruction of a known architecture and
/// none of the program.
Result<void> check_pairs(const std::vector<UnitPair>& pairs, const Program& program);

/// Every kernel of the program, with the findings of its PTX attached by name. Kernels in the file's order.
Result<std::vector<KernelReport>> analyse(const Program& program, const AnalysisOptions& options);

}  // namespace pinch::sass
