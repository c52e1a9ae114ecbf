// What another build of the same kernels changes.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "pinch/study.h"

namespace pinch {
namespace {

using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, Fp4Format, OutputType, std::string>;

Key key_of(const TruthRow& row) {
  const GemmProblem& p = row.problem;
  return {p.m, p.n, p.k, p.format, p.output, row.tactic};
}

std::map<Key, double> times_of(const Truth& truth) {
  std::map<Key, double> times;
  for (const TruthRow& row : truth.rows) {
    if (row.median_ns) times[key_of(row)] = *row.median_ns;
  }
  return times;
}

// The value that a share of the others do not exceed.
double quantile(std::vector<double> values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

}  // namespace

Result<BuildComparison> compare_builds(const std::vector<Truth>& first, const std::vector<Truth>& second,
                                       double least) {
  if (first.size() != 2 || second.size() != 2) {
    return Error{ErrorCode::kInvalidArgument, "give two rounds of each build: one says nothing of the noise", "rounds"};
  }
  const std::array rounds{times_of(first[0]), times_of(first[1]), times_of(second[0]), times_of(second[1])};
  BuildComparison result;
  std::vector<double> ratios, apart;
  std::vector<std::array<double, 2>> least_most;  // logarithms of the ratios of single rounds
  for (const TruthRow& row : first[0].rows) {
    std::array<double, 4> ns{};
    bool timed = true;
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const auto found = rounds[i].find(key_of(row));
      timed = timed && found != rounds[i].end();
      ns[i] = timed ? found->second : 0;
    }
    if (!timed) continue;
    result.cells.push_back({row.problem, row.tactic, std::sqrt(ns[2] * ns[3] / (ns[0] * ns[1]))});
    ratios.push_back(result.cells.back().ratio);
    least_most.push_back({std::log(std::min(ns[2], ns[3]) / std::max(ns[0], ns[1])),
                          std::log(std::max(ns[2], ns[3]) / std::min(ns[0], ns[1]))});
    for (const std::size_t build : {0U, 2U}) apart.push_back(std::abs(std::log(ns[build + 1] / ns[build])));
  }
  if (ratios.empty()) {
    return Error{ErrorCode::kInvalidArgument, "no tactic of a problem is timed in all four records", "rounds"};
  }
  result.median = quantile(ratios, 0.5);
  result.noise = std::exp(quantile(apart, 0.99));
  const double median = std::log(result.median), band = std::log(result.noise);
  const auto distance = [&](const BuildCell& cell) { return std::abs(std::log(cell.ratio) - median); };
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    const auto [closest_above, closest_below] = least_most[i];
    if (distance(result.cells[i]) > std::log(least) && (closest_above - median > band || median - closest_below > band))
      result.moved.push_back(result.cells[i]);
  }
  std::stable_sort(result.moved.begin(), result.moved.end(),
                   [&](const BuildCell& a, const BuildCell& b) { return distance(a) > distance(b); });
  return result;
}

}  // namespace pinch
