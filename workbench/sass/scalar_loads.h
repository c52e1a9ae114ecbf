// Loads of neighbouring words, one by one, that one wide load could fetch.
#pragma once

#include <vector>

#include "workbench/sass/lints.h"

namespace pinch::sass {

/// A finding for every group of loads on the path of `loop`, of one word each, from one address with neighbouring
/// offsets, that nothing tells apart: no store that may change what they read, no barrier, fence, wait or volatile
/// load, and no place where other code may run between them. Needs operands.
[[nodiscard]] std::vector<Lint> scalar_loads(const LoopContext& context, const Loop& loop, const LoopCode& code);

}  // namespace pinch::sass
