// Fits the constants of the cpu family's time model to recorded ground truth.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kernels/gemm_bf16_fp4/model.h"
#include "pinch/study.h"

namespace pinch::calibrate {

/// One tactic of one problem: its time, or that it is hopeless, at least kHopeless times the best.
struct TimedRow {
  std::size_t tactic = 0;
  std::size_t problem = 0;  ///< place among the distinct problems
  std::optional<double> ns;
};
/// Below the factors by which cpu_truth leaves tactics out, because a probe is no measurement.
inline constexpr double kHopeless = 1.5;

struct TimedProblem {
  GemmProblem problem;
  double best_ns = 0;
};

/// The timed and the hopeless rows of a truth, tactics that this build lacks left out.
struct FitData {
  int threads = 1;
  std::vector<TimedProblem> problems;
  std::vector<TimedRow> rows;
};
FitData fit_data(const Truth& truth);

/// Constants that are not fitted but known: the sizes of the caches.
struct KnownConstants {
  double l1d_bytes = 0, l2_bytes = 0;
};

/// Least weighted |log(predicted / measured)| by coordinate descent over the logarithms of the constants. A row weighs
/// (best time of its problem / its time), because a default depends on the fast tactics; a hopeless one counts where it
/// is predicted below kHopeless times the best. `use` says which problems count. Deterministic.
std::vector<double> fit_constants(const FitData& data, const KnownConstants& known, const std::vector<bool>& use);

struct FitQuality {
  double geomean_regret = 1, worst_regret = 1;  ///< a hopeless pick counts as kHopeless
  double median_abs_error = 0;                  ///< of |predicted / measured - 1| over rows within twice the best
};

/// Quality of constants on the problems that `use` names.
FitQuality quality(const FitData& data, std::span<const double> constants, const std::vector<bool>& use);

}  // namespace pinch::calibrate
