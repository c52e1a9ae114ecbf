// The way through a loop whose products stand behind branches.
#pragma once

#include "workbench/sass/flow.h"
#include "workbench/sass/machine.h"

namespace pinch::sass {

/// Loops in which some blocks of their own multiply with the tensor core and no instruction of `path` does get another
/// path: of the ways through one iteration the one that multiplies most, and of those the one with the fewest
/// instructions, each inner loop once. `branches` of them is set. Where no way leads round, as in a nest deeper than
/// kListedLevels, a loop stays as it is.
void take_products(const Kernel& kernel, const Machine& machine, Flow& flow);

}  // namespace pinch::sass
