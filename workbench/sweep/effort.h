// How many processes a sweep will start, counted by rehearsing it.
#pragma once

#include "workbench/sweep/sweep.h"

namespace pinch::sweep {

struct Effort {
  std::size_t least = 0;  ///< where every point stands clear of every other and the default wins
  std::size_t most = 0;   ///< where all of them tie
};

/// Of one problem with these legal points, builds apart. Two more than either are run for each winner other than the
/// default, to confirm it; a budget in seconds is not counted in. Errors: those of sweep_problem.
Result<Effort> effort(const Space& space, const Subject& subject, const Options& options,
                      const std::vector<Choice>& legal);

}  // namespace pinch::sweep
