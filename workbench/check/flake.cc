#include "workbench/check/flake.h"

#include <algorithm>
#include <cmath>

namespace pinch::check {
namespace {

double log_choose(int n, int k) {
  return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0);
}

// P(Binomial(n, p) <= k), 0 < p < 1.
double at_most(int k, int n, double p) {
  double sum = 0;
  for (int i = 0; i <= k; ++i) sum += std::exp(log_choose(n, i) + i * std::log(p) + (n - i) * std::log1p(-p));
  return std::min(1.0, sum);
}

}  // namespace

int runs_needed(double rate, double confidence) {
  // The quotient is a whole number for some pairs, and a rounding error must not add a run.
  return static_cast<int>(std::ceil(std::log1p(-confidence) / std::log1p(-rate) - 1e-9));
}

double missed_probability(double rate, int runs) {
  return std::exp(runs * std::log1p(-rate));
}

double rate_upper(int differing, int runs, double confidence) {
  if (differing >= runs) return 1;
  double low = 0, high = 1;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (at_most(differing, runs, middle) > 1 - confidence ? low : high) = middle;
  }
  return high;
}

double fisher_p(int a_differing, int a_runs, int b_differing, int b_runs) {
  const int all = a_differing + b_differing;
  double p = 0;
  for (int in_b = b_differing; in_b <= std::min(all, b_runs); ++in_b) {
    if (all - in_b > a_runs) continue;
    p += std::exp(log_choose(b_runs, in_b) + log_choose(a_runs, all - in_b) - log_choose(a_runs + b_runs, all));
  }
  return std::min(1.0, p);
}

Flake cluster(const std::vector<std::string>& results) {
  Flake flake;
  flake.runs = static_cast<int>(results.size());
  int largest = 0;
  for (const std::string& result : results) largest = std::max(largest, ++flake.clusters[result]);
  flake.differing = flake.runs - largest;
  return flake;
}

std::string_view verdict(const Flake& flake, std::optional<Flake> baseline) {
  if (flake.differing == 0) return "stable";
  if (!baseline) return "flaky";
  if (fisher_p(baseline->differing, baseline->runs, flake.differing, flake.runs) < 0.05) return "new";
  return baseline->differing > 0 ? "pre_existing" : "undecided";
}

}  // namespace pinch::check
