#include "workbench/check/gate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace pinch::check {
namespace {

constexpr int kResamples = 1000;

constexpr std::size_t kFewestUnits = 16;

// Of sqrt(sum of a's errors / sum of b's), units drawn with replacement and in pairs. Too few units have none: an
// interval over one has no width, and one over a handful is far too narrow.
std::optional<Band> ratio_interval(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < kFewestUnits) return std::nullopt;
  std::mt19937_64 random(1);
  std::uniform_int_distribution<std::size_t> unit(0, a.size() - 1);
  std::vector<double> ratios;
  for (int resample = 0; resample < kResamples; ++resample) {
    double over = 0, under = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t at = unit(random);
      over += a[at];
      under += b[at];
    }
    ratios.push_back(under > 0 ? std::sqrt(over / under) : (over > 0 ? std::numeric_limits<double>::infinity() : 1));
  }
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double p) { return ratios[static_cast<std::size_t>(p * (kResamples - 1))]; };
  return Band{at(0.025), at(0.975)};
}

std::string failure_of(const Gate& gate, DType output) {
  const Difference& ours = gate.candidate;
  if (ours.mask_differs > 0) {
    return fmt::format("masks: {} elements are NaN or infinite where the reference is not, or the other way round",
                       ours.mask_differs);
  }
  if (gate.excess && gate.excess->low > 1) {
    return fmt::format("relative: rel_l2 {:.3g} is above the baseline's {:.3g} (ratio {:.3f} to {:.3f} at 95%)",
                       ours.rel_l2, gate.baseline->rel_l2, gate.excess->low, gate.excess->high);
  }
  if (gate.baseline && ours.max_abs > 2 * gate.baseline->max_abs + ulp_at(output, ours.worst_b)) {
    return fmt::format("largest: an error of {:.3g} where the baseline's largest is {:.3g}", ours.max_abs,
                       gate.baseline->max_abs);
  }
  if (!(ours.rel_l2 <= *gate.absolute_bound)) {
    return fmt::format("absolute: rel_l2 {:.3g} is above {:.3g}, what {} can cost{}", ours.rel_l2, *gate.absolute_bound,
                       type_name(output),
                       gate.baseline && gate.baseline->rel_l2 > *gate.absolute_bound ? "; the baseline is too" : "");
  }
  return {};
}

}  // namespace

double absolute_bound(DType output, const Formats& formats) {
  return 2 * (unit_roundoff(output) + unit_roundoff(formats.intermediate.value_or(output)) +
              std::sqrt(formats.terms) * unit_roundoff(DType::kF32));
}

Result<Gate> judge(Change change, const Array& baseline, const Array& candidate, const Array* reference,
                   const Formats& formats) {
  Gate gate;
  PINCH_ASSIGN(ours, difference(candidate, reference != nullptr ? *reference : baseline));
  gate.candidate = std::move(ours);
  if (change == Change::kReorder) {
    if (reference != nullptr) {
      PINCH_ASSIGN(against_baseline, difference(candidate, baseline));
      gate.candidate = std::move(against_baseline);
    }
    gate.passed = gate.candidate.bitwise;
    gate.reason = gate.passed ? "equal to the bit"
                              : fmt::format("{} of {} elements differ ({})", gate.candidate.differing,
                                            gate.candidate.elements, gate.candidate.pattern);
    // Types that differ, -0 against +0 and NaN payloads are no equal bytes either.
    if (!gate.passed && gate.candidate.differing == 0) gate.reason = "equal in value, not in bytes";
    return gate;
  }
  if (reference != nullptr) {
    PINCH_ASSIGN(theirs, difference(baseline, *reference));
    gate.excess = ratio_interval(gate.candidate.unit_error2, theirs.unit_error2);
    gate.baseline = std::move(theirs);
  }
  const DType output = candidate.view().dtype;
  gate.absolute_bound = absolute_bound(output, formats);
  gate.reason = failure_of(gate, output);
  gate.passed = gate.reason.empty();
  if (gate.passed) {
    gate.reason = gate.baseline && !gate.excess
                      ? "within what the formats can cost; too few elements to compare the error with the baseline's"
                      : "within the baseline's error and what the formats can cost";
  }
  return gate;
}

}  // namespace pinch::check
