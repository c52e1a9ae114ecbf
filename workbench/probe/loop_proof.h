// Counts what is timed in the loop of a GPU kernel.
#pragma once

#include <string>
#include <vector>

#include "workbench/probe/proof.h"
#include "workbench/sass/program.h"

namespace pinch::probe {

/// So many of an opcode, or of it and another together, in one iteration: {"HFMA2", 64, "HFMA2.MMA"}.
struct Timed {
  std::string opcode;
  int count = 0;
  std::string also = {};
};

/// What the longest loop of `kernel` holds of each opcode that it times, whose mnemonic must be the whole of it, and
/// whether the clock is read around it.
/// `by_map`: the mnemonics come from the opcode map, which knows few modifiers: the proof is of the base opcode only,
/// and two opcodes that it cannot tell apart are expected together. Nothing is found in a kernel without a loop.
[[nodiscard]] std::vector<Proof> prove(const sass::Kernel& kernel, const std::vector<Timed>& timed, bool by_map);

/// The same, where `beside`, whatever further modifiers it has, must stand so often in the loop too.
[[nodiscard]] std::vector<Proof> prove(const sass::Kernel& kernel, const std::vector<Timed>& timed, bool by_map,
                                       const Timed& beside);

}  // namespace pinch::probe
