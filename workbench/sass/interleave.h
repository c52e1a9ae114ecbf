// How a loop's instructions of two units alternate, how far loads run ahead, and how far it is unrolled.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "workbench/sass/machine.h"
#include "workbench/sass/simulate.h"

namespace pinch::sass {

/// Two units by name: a mnemonic ("MUFU", "F2FP", "MUFU.EX2") or a pipe ("tensor").
struct UnitPair {
  std::string first = "MUFU", second = "F2FP";
};

struct Interleaving {
  int first_count = 0, second_count = 0;
  int runs = 0;         ///< maximal stretches of one unit, other instructions ignored
  int transitions = 0;  ///< changes from one unit to the other: runs - 1
  int longest_run = 0;  ///< instructions
};

[[nodiscard]] Interleaving interleaving(const LoopCode& code, const UnitPair& pair);

struct LoadDistance {
  int loads = 0;     ///< loads with a use in the loop
  int shortest = 0;  ///< instructions from a load to the first that reads it, round the loop where the use comes before
  double mean = 0;
};

/// Global, shared and constant loads and their first uses; zero loads where operands are not known.
[[nodiscard]] LoadDistance load_distance(const LoopCode& code);

/// Times the loop body seems repeated: the greatest common divisor of the counts of its memory, MUFU and tensor
/// instructions by mnemonic. 1 where nothing repeats or none is there. An estimate.
[[nodiscard]] int unroll_factor(const LoopCode& code);

/// Operands that the loop keeps in the reuse cache.
[[nodiscard]] int reused_operands(const LoopCode& code);

}  // namespace pinch::sass
