// The plain ways to compare tactics, which the short cuts are tested and timed against.
#pragma once

#include "pinch/tactics.h"

namespace pinch {

/// The order of a ranking: smaller cost first, then smaller tie_key.
bool comes_before(const TacticFamily& family, const RankedTactic& a, const RankedTactic& b);

/// The default by looking at every tactic: no memo, no contenders. `model` must be one of the family's names.
Result<RankedTactic> scan_default(const TacticFamily& family, const GemmProblem& problem, const Resources& resources,
                                  std::string_view model);

}  // namespace pinch
