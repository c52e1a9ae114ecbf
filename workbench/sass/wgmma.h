// wgmma in SASS: products that run on while the warp goes on, and waits that leave groups of them in flight.
#pragma once

#include "workbench/sass/program.h"

namespace pinch::sass {

[[nodiscard]] inline bool is_wgmma(std::string_view base) {
  return base == "HGMMA" || base == "QGMMA" || base == "IGMMA";
}

inline constexpr int kMostGroupsLeft = 7;  ///< ptxas writes a wait for more groups as a wait for 7

/// True for the last product of a group (wgmma.commit_group): "gsb0" among its operands, bits 84 to 86 of its word.
[[nodiscard]] bool closes_group(const Instruction& product);

/// Groups that a wait leaves in flight (wgmma.wait_group N; WARPGROUP.DEPBAR.LE gsb0, N; bits 72 to 74 of its word);
/// -1 for any other instruction.
[[nodiscard]] int groups_left(const Instruction& instruction);

}  // namespace pinch::sass
