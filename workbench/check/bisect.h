// Which of the settings that differ make a program fail: delta debugging (Zeller and Hildebrandt 2002) over a predicate
// that may be flaky.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pinch/result.h"

namespace pinch::check {

struct Bisection {
  std::vector<std::size_t> needed;  ///< indices of the differences that together fail, none of which can be left out
  int tests = 0;                    ///< settings that were tried
  int runs = 0;
  double failure_rate = 1;  ///< of the failing setting, as it was seen
  int repeats = 1;          ///< runs that a setting must pass
  double error_rate = 0;  ///< probability that some setting passed by luck, at most, if all that fail do so as often as
                          ///< the failing setting; 0 where that one failed in every run, which is taken for its rule
};

/// `fails(on)`: runs once with the differences of `on` taken from the failing setting and the others from the passing
/// one. The failing setting is run 20 times to see its rate, a flaky one until it failed 8 times or ran 200; a setting
/// counts as passing after so many clean runs that the probability of luck, the rate's own doubt included, stays at
/// `error_rate` over the whole search. Errors: kInvalidArgument where the failing
/// setting never fails in those runs, or the passing one does; what `fails` returns.
Result<Bisection> bisect(std::size_t differences, double error_rate,
                         const std::function<Result<bool>(const std::vector<std::size_t>& on)>& fails);

}  // namespace pinch::check
