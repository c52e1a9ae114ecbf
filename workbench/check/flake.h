// How often a program differs from itself, and what so many runs can tell. Binomial statistics, exact.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pinch::check {

/// Runs after which a fault of this rate has shown at least once with this confidence: 59 for 0.05 and 0.95.
int runs_needed(double rate, double confidence);

/// The probability that `runs` runs show nothing of a fault of this rate: 0.36 for 0.05 and 20.
double missed_probability(double rate, int runs);

/// The largest rate that is still compatible with `differing` of `runs`, one-sided (Clopper and Pearson 1934): with 0
/// of 59 at 0.95 it is 0.0495.
double rate_upper(int differing, int runs, double confidence);

/// Probability of at least `b_differing` in b's runs if a and b have one rate, given how many differ in all (Fisher's
/// exact test, one-sided).
double fisher_p(int a_differing, int a_runs, int b_differing, int b_runs);

struct Flake {
  int runs = 0;
  std::map<std::string, int> clusters;  ///< how many runs ended in each result (a hash, or how it failed)
  int differing = 0;                    ///< runs outside the largest cluster
};
Flake cluster(const std::vector<std::string>& results);

/// "stable": no run differed. "flaky": some did. With a baseline's counts, instead of flaky: "new" where Fisher's test
/// is below 0.05; else "pre_existing" where the baseline differs too, "undecided" where more runs are needed.
std::string_view verdict(const Flake& flake, std::optional<Flake> baseline);

}  // namespace pinch::check
