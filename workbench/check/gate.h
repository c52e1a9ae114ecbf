// The gate that a changed program must pass, by what kind of change it claims to be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pinch/result.h"
#include "workbench/check/array.h"
#include "workbench/check/compare.h"

namespace pinch::check {

enum class Change : std::uint8_t {
  kReorder,  ///< the same operations in another order of issue: the result must be equal to the bit
  kAlgebra,  ///< other operations of the same meaning: the error may not grow
};
constexpr std::string_view to_string(Change change) {
  return change == Change::kReorder ? "reorder" : "algebra";
}

/// An interval at 95%.
struct Band {
  double low = 0, high = 0;
};

struct Gate {
  bool passed = false;
  std::string reason;                    ///< which condition failed, or that all held
  Difference candidate;                  ///< against the reference where there is one, else against the baseline
  std::optional<Difference> baseline;    ///< against the reference
  std::optional<Band> excess;            ///< of rel_l2(candidate) / rel_l2(baseline), paired bootstrap over rows;
                                         ///< none for fewer than 16 elements
  std::optional<double> absolute_bound;  ///< on rel_l2, from the number format of the output
};

/// What the absolute bound is made of.
struct Formats {
  std::optional<DType> intermediate;  ///< the narrowest type that values pass through on the way; none: the output's
  double terms = 65536;               ///< products that are summed in FP32 for one element
};

/// 2 * (u(output) + u(intermediate) + sqrt(terms) * u(FP32)), u being unit_roundoff: rounding once costs at most u, a
/// sum of terms with random signs errs by about sqrt(terms) roundings, and twice that is no noise any more.
double absolute_bound(DType output, const Formats& formats);

/// kReorder passes where every byte is equal. kAlgebra passes where all of these hold:
///   masks     NaN and infinities are where the reference has them
///   relative  the candidate's rel_l2 is not above the baseline's: the 95% interval of their ratio is not wholly above
///             1, by chance for 1 in 40 equally noisy ones, 1 in 20 below 100 elements; over rows, or runs of elements
///             where rows are few (compare.h); not asked of fewer than 16 elements
///   largest   its largest error is at most twice the baseline's plus one ulp of the output there
///   absolute  its rel_l2 is within absolute_bound, so that two that are equally wrong do not pass
/// all against the reference. Without a reference the baseline is taken for one, and masks and absolute decide. Errors:
/// those of difference().
Result<Gate> judge(Change change, const Array& baseline, const Array& candidate, const Array* reference,
                   const Formats& formats = {});

}  // namespace pinch::check
