// How one array differs from another, and where.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/check/array.h"

namespace pinch::check {

/// Elements whose values lie this many units in the last place apart: 0, 1, 2, up to 4, 16, 256, more.
inline constexpr std::array<double, 6> kUlpEdges = {0, 1, 2, 4, 16, 256};

/// Rows (the last axis is one) are the units that an interval is drawn over. Fewer than this many say nothing of their
/// own spread, so each is cut into equal runs of neighbouring elements, kFewRowUnits of them in all where there are so
/// many elements: errors are then taken as independent from run to run, no longer only from row to row.
inline constexpr std::int64_t kFewRows = 30, kFewRowUnits = 64;

/// Sums are in FP64, over elements that are finite on both sides.
struct Difference {
  std::int64_t elements = 0;
  bool bitwise = false;           ///< equal in every byte
  std::int64_t differing = 0;     ///< elements whose bits differ
  std::int64_t mask_differs = 0;  ///< elements that are NaN, +inf or -inf on one side and not the same on the other
  std::int64_t nonfinite = 0;     ///< of the first array
  double rel_l2 = 0;              ///< |a - b| / |b|; of a zero b: |a| (0 where both are)
  double max_abs = 0;
  double cosine = 1;
  std::array<std::int64_t, kUlpEdges.size() + 1> ulps = {};
  std::vector<std::int64_t>
      worst;  ///< index of the element with the largest |a - b|; one whose mask differs comes first
  double worst_a = 0, worst_b = 0;
  std::string pattern;              ///< what the differing elements have in common; empty: nothing differs
  std::vector<double> unit_error2;  ///< |a - b|^2 of each unit, on a scale that b alone sets, that intervals are drawn
                                    ///< over, see kFewRows
};

/// `a` against `b`. Errors: kInvalidArgument where the shapes differ. Types may differ; then `bitwise` is false.
Result<Difference> difference(const Array& a, const Array& b);

}  // namespace pinch::check
