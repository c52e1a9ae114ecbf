#include "workbench/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pinch::measure {

namespace {

constexpr double kCoverage = 0.95;

/// P(Binomial(n, 1/2) = k), through logarithms so that 2^-n cannot underflow.
double coin_probability(std::size_t n, std::size_t k) {
  const auto size = static_cast<double>(n);
  const auto heads = static_cast<double>(k);
  return std::exp(std::lgamma(size + 1) - std::lgamma(heads + 1) - std::lgamma(size - heads + 1) -
                  size * std::log(2.0));
}

}  // namespace

double quantile(std::span<const double> sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Summary summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.size(),         values.front(),         quantile(values, 0.25),
          quantile(values, 0.5), quantile(values, 0.75), values.back()};
}

Interval median_interval(std::span<const double> sorted) {
  const std::size_t n = sorted.size();
  // [x_(j+1), x_(n-j)] misses the median with probability 2 P(Binomial(n, 1/2) <= j).
  std::size_t j = 0;
  double tail = coin_probability(n, 0);
  while (2 * (j + 1) < n) {
    const double next = tail + coin_probability(n, j + 1);
    if (2 * next > 1 - kCoverage) break;
    tail = next;
    ++j;
  }
  return {sorted[j], sorted[n - 1 - j]};
}

double relative_noise(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::infinity();
  std::sort(values.begin(), values.end());
  const Interval interval = median_interval(values);
  return (interval.high - interval.low) / 2 / quantile(values, 0.5);
}

double spread(std::vector<double> a, std::vector<double> b) {
  if (a.empty() || b.empty()) return std::numeric_limits<double>::infinity();
  return std::abs(summarize(std::move(a)).median / summarize(std::move(b)).median - 1);
}

}  // namespace pinch::measure
