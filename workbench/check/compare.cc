#include "workbench/check/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

namespace pinch::check {
namespace {

constexpr std::int64_t kBlock = 1 << 14;

enum class Mask : std::uint8_t { kFinite, kNan, kPositive, kNegative };
Mask mask_of(double value) {
  if (std::isfinite(value)) return Mask::kFinite;
  if (std::isnan(value)) return Mask::kNan;
  return value > 0 ? Mask::kPositive : Mask::kNegative;
}

// Which rows and columns differ. Columns of all rows folded together: a tile shows as a range of both.
struct Places {
  std::int64_t rows = 1, columns = 1;
  std::vector<std::int64_t> in_row, in_column;  // differing elements
};

struct Range {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] std::int64_t length() const { return last - first + 1; }
};
std::optional<Range> contiguous(const std::vector<std::int64_t>& counts) {
  const auto set = [](std::int64_t count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), set);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), set).base() - 1;
  if (!std::all_of(first, last, set)) return std::nullopt;
  return Range{first - counts.begin(), last - counts.begin()};
}

// The smallest period p >= 2 of the set positions' residues: they fill a proper subset of the residues mod p, and each
// residue of the subset is set at every place. Powers of two first, for those are tiles.
std::optional<std::pair<std::int64_t, std::int64_t>> period_of(const std::vector<std::int64_t>& counts) {
  const auto size = static_cast<std::int64_t>(counts.size());
  for (std::int64_t period = 2; period * 2 <= size && period <= 1024; period *= 2) {
    std::set<std::int64_t> set, unset;
    for (std::int64_t i = 0; i < size; ++i) (counts[static_cast<std::size_t>(i)] > 0 ? set : unset).insert(i % period);
    std::vector<std::int64_t> both;
    std::set_intersection(set.begin(), set.end(), unset.begin(), unset.end(), std::back_inserter(both));
    if (both.empty() && !set.empty() && !unset.empty()) return std::pair(period, static_cast<std::int64_t>(set.size()));
  }
  return std::nullopt;
}

std::string describe(const Places& places, std::int64_t differing) {
  if (differing == 0) return {};
  if (differing == places.rows * places.columns) return "every element";
  const auto rows = contiguous(places.in_row);
  const auto columns = contiguous(places.in_column);
  if (differing == 1) return fmt::format("one element: row {}, column {}", rows->first, columns->first);
  const bool one_row = rows && rows->length() == 1;
  const bool one_column = columns && columns->length() == 1;
  if (one_row && columns && columns->length() == 16 && columns->first % 16 == 0 && differing == 16) {
    return fmt::format("one group of 16: row {}, columns {} to {}", rows->first, columns->first, columns->last);
  }
  if (one_row) return fmt::format("one row: {}", rows->first);
  if (one_column) return fmt::format("one column: {}", columns->first);
  if (rows && columns && rows->length() * columns->length() == differing &&
      (rows->length() < places.rows || columns->length() < places.columns)) {
    return fmt::format("one tile: rows {} to {}, columns {} to {}", rows->first, rows->last, columns->first,
                       columns->last);
  }
  const auto row_period = period_of(places.in_row);
  const auto column_period = period_of(places.in_column);
  if (row_period || column_period) {
    std::string text = "tile-periodic:";
    if (row_period) text += fmt::format(" {} of every {} rows", row_period->second, row_period->first);
    if (row_period && column_period) text += ",";
    if (column_period) text += fmt::format(" {} of every {} columns", column_period->second, column_period->first);
    return text;
  }
  const auto touched = [](const std::vector<std::int64_t>& counts) {
    return std::count_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; });
  };
  return fmt::format("scattered: {} of {} rows, {} of {} columns", touched(places.in_row), places.rows,
                     touched(places.in_column), places.columns);
}

// A power of two that keeps squares of f64 within its range, by the largest of b; other types' squares always are.
double scale_of(const Array& b) {
  constexpr int kHarmless = 300, kLargest = 1000;
  if (b.view().dtype != DType::kF64) return 1;
  double largest = 0;
  std::vector<double> values(kBlock);
  for (std::int64_t first = 0; first < b.size(); first += kBlock) {
    const auto here = std::span(values).first(static_cast<std::size_t>(std::min(kBlock, b.size() - first)));
    b.values(first, here);
    for (const double value : here) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
  }
  const int exponent = largest > 0 ? std::ilogb(largest) : 0;
  return std::abs(exponent) < kHarmless ? 1 : std::ldexp(1.0, -std::clamp(exponent, -kLargest, kLargest));
}

}  // namespace

Result<Difference> difference(const Array& a, const Array& b) {
  if (a.view().shape != b.view().shape) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("shapes differ: {} and {}", pinch::to_string(a.view().shape), pinch::to_string(b.view().shape)),
        ""};
  }
  Difference result;
  result.elements = a.size();
  const bool one_type = a.view().dtype == b.view().dtype;
  result.bitwise = one_type && (a.view().bytes.empty() ||
                                std::memcmp(a.view().bytes.data(), b.view().bytes.data(), a.view().bytes.size()) == 0);
  const Shape& shape = a.view().shape;
  Places places;
  places.columns = shape.empty() ? 1 : std::max<std::int64_t>(1, shape.back());
  places.rows = std::max<std::int64_t>(1, result.elements / places.columns);
  places.in_row.resize(static_cast<std::size_t>(places.rows));
  places.in_column.resize(static_cast<std::size_t>(places.columns));
  const std::int64_t cuts =
      places.rows < kFewRows ? std::min(places.columns, (kFewRowUnits + places.rows - 1) / places.rows) : 1;
  result.unit_error2.resize(static_cast<std::size_t>(places.rows * cuts));

  std::vector<double> va(kBlock), vb(kBlock);
  const double scale = scale_of(b);
  double error2 = 0, norm2 = 0, other2 = 0, dot = 0, worst = -1;
  std::int64_t worst_at = -1;
  for (std::int64_t first = 0; first < result.elements; first += kBlock) {
    const auto count = static_cast<std::size_t>(std::min(kBlock, result.elements - first));
    a.values(first, std::span(va).first(count));
    b.values(first, std::span(vb).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      const auto row = static_cast<std::size_t>(at / places.columns);
      const std::int64_t column = at % places.columns;
      const double x = va[i], y = vb[i];
      const Mask mx = mask_of(x), my = mask_of(y);
      if (mx != Mask::kFinite) ++result.nonfinite;
      // -0 and +0 differ in bits and not in value; NaNs of any payload count as one.
      const bool differs = mx != my || (mx == Mask::kFinite && (x != y || std::signbit(x) != std::signbit(y)));
      if (differs) {
        ++result.differing;
        ++places.in_row[row];
        ++places.in_column[static_cast<std::size_t>(column)];
      }
      double gap = 0;
      if (mx != my) {
        ++result.mask_differs;
        ++result.ulps.back();
        gap = std::numeric_limits<double>::infinity();
      } else if (mx == Mask::kFinite) {
        gap = std::abs(x - y);
        const double scaled_gap = gap * scale, scaled_x = x * scale, scaled_y = y * scale;
        error2 += scaled_gap * scaled_gap;
        norm2 += scaled_y * scaled_y;
        other2 += scaled_x * scaled_x;
        dot += scaled_x * scaled_y;
        result.unit_error2[cuts == 1 ? row
                                     : row * static_cast<std::size_t>(cuts) +
                                           static_cast<std::size_t>(column * cuts / places.columns)] +=
            scaled_gap * scaled_gap;
        result.max_abs = std::max(result.max_abs, gap);
        const double ulps = gap / ulp_at(a.view().dtype, std::max(std::abs(x), std::abs(y)));
        const auto edge = std::find_if(kUlpEdges.begin(), kUlpEdges.end(), [&](double each) { return ulps <= each; });
        ++result.ulps[static_cast<std::size_t>(edge - kUlpEdges.begin())];
      } else {
        ++result.ulps.front();
      }
      if (gap > worst) {
        worst = gap;
        worst_at = at;
        result.worst_a = x;
        result.worst_b = y;
      }
    }
  }
  result.rel_l2 = norm2 > 0 ? std::sqrt(error2 / norm2) : std::sqrt(error2) / scale;
  result.cosine = norm2 > 0 && other2 > 0 ? dot / (std::sqrt(norm2) * std::sqrt(other2)) : (norm2 == other2 ? 1 : 0);
  if (worst_at >= 0) {
    result.worst.resize(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0; worst_at /= shape[axis])
      result.worst[axis] = worst_at % shape[axis];
  }
  result.pattern = describe(places, result.differing);
  return result;
}

}  // namespace pinch::check
