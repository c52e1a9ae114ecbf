// Names of opcodes without a disassembler: a map derived from builds of our own (scripts/derive_opcodes.py).
#pragma once

#include "workbench/sass/program.h"

namespace pinch::sass {

/// Fills mnemonics (base names, and the modifiers that rates depend on) and branch targets of a kernel read from a
/// cubin. What the map does not hold stays unknown; what needs operands (dependency bound, some lints) cannot be done.
void name_opcodes(Kernel& kernel);

/// True where the map of some architecture has an instruction of this base name ("MUFU").
[[nodiscard]] bool is_opcode(std::string_view base);

}  // namespace pinch::sass
