// Coordinate descent over positive constants.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace pinch::calibrate {

/// Moves each constant that is `free` by ever smaller factors as long as `loss(constant)`, which reads `values` and
/// sums what this constant concerns, gets less. From the last constant to the first. Deterministic.
void descend(std::vector<double>& values, const std::vector<bool>& free,
             const std::function<double(std::size_t)>& loss);

}  // namespace pinch::calibrate
