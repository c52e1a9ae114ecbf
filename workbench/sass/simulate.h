// Warps of one sub-partition run a loop under their control codes.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "workbench/sass/machine.h"
#include "workbench/sass/operands.h"
#include "workbench/sass/program.h"

namespace pinch::sass {

enum class Policy { kGreedy, kFair };  ///< stay on the warp while it can issue, or take the one that issued longest ago

/// Costs and registers of the instructions of one loop iteration, looked up once.
struct LoopCode {
  std::vector<const Instruction*> instructions;
  std::vector<Cost> costs;
  std::vector<Access> accesses;  ///< empty lists where operands are not known
};
/// What the machine and the mnemonic alone say, by mnemonic: a program repeats its mnemonics.
struct MnemonicFacts {
  Cost cost;
  OperandShape shape;
};
using KnownMnemonics = std::unordered_map<std::string_view, MnemonicFacts>;

/// `known` serves one machine and the programs whose texts outlive it.
[[nodiscard]] LoopCode loop_code(const Kernel& kernel, std::span<const int> path, const Machine& machine,
                                 KnownMnemonics& known);

/// Cycles an iteration of `warps` warps that all run the loop: the growth of the time to the last warp's end between
/// two numbers of iterations, so that start and end cancel. Instructions without a word run as stall 1, waiting on
/// nothing. Two short runs can differ by a few cycles less than the pipes need for what lies between them: the bound of
/// the loop stands above this estimate. Source: issue rules as published for recent NVIDIA cores (Huerta et al., MICRO
/// 2025), rates of the machine model.
[[nodiscard]] double simulated_cycles(const LoopCode& code, const Machine& machine, int warps, Policy policy);

/// Cycles from the first issue until the last of `warps` warps has run `iterations` and every pipe has done its work.
/// Never below iterations × warps × the bound of any pipe.
[[nodiscard]] double total_cycles(const LoopCode& code, const Machine& machine, int warps, Policy policy,
                                  int iterations);

/// The longest chain from one iteration to the next through registers, in cycles: no order of the instructions and no
/// number of warps makes one warp faster. A wgmma that adds to the accumulators of the one before it follows it through
/// the tensor core, not through its latency; what else reads them waits for both. Meaningful where operands are known.
[[nodiscard]] double dependency_cycles(const LoopCode& code);

}  // namespace pinch::sass
