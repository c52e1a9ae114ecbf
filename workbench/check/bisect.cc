#include "workbench/check/bisect.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "workbench/check/flake.h"

namespace pinch::check {
namespace {

constexpr int kProbes = 20;   // of the failing setting, at least
constexpr int kFailures = 8;  // wanted of a flaky one, for its rate to be known
constexpr int kMostProbes = 200;

class Search {
 public:
  Search(const std::function<Result<bool>(const std::vector<std::size_t>&)>& fails, Bisection& result)
      : fails_(fails), result_(result) {}

  // True at the first run that fails.
  Result<bool> test(const std::vector<std::size_t>& on) {
    ++result_.tests;
    for (int run = 0; run < result_.repeats; ++run) {
      ++result_.runs;
      PINCH_ASSIGN(failed, fails_(on));
      if (failed) return true;
    }
    return false;
  }

  // ddmin: subsets first, then complements, then finer.
  Result<std::vector<std::size_t>> minimise(std::vector<std::size_t> set) {
    for (std::size_t parts = 2; set.size() >= 2;) {
      const std::size_t size = (set.size() + parts - 1) / parts;
      bool reduced = false;
      for (const bool complement : {false, true}) {
        if (complement && parts == 2) break;  // the complements of halves are the halves
        for (std::size_t first = 0; first < set.size() && !reduced; first += size) {
          const auto begin = set.begin() + static_cast<std::ptrdiff_t>(first);
          const auto end = set.begin() + static_cast<std::ptrdiff_t>(std::min(first + size, set.size()));
          std::vector<std::size_t> candidate(begin, end);
          if (complement) {
            candidate.assign(set.begin(), begin);
            candidate.insert(candidate.end(), end, set.end());
          }
          PINCH_ASSIGN(failed, test(candidate));
          if (!failed) continue;
          set = std::move(candidate);
          parts = complement ? std::max<std::size_t>(parts - 1, 2) : 2;
          reduced = true;
        }
        if (reduced) break;
      }
      if (reduced) continue;
      if (parts >= set.size()) break;
      parts = std::min(2 * parts, set.size());
    }
    return set;
  }

 private:
  const std::function<Result<bool>(const std::vector<std::size_t>&)>& fails_;
  Bisection& result_;
};

}  // namespace

Result<Bisection> bisect(std::size_t differences, double error_rate,
                         const std::function<Result<bool>(const std::vector<std::size_t>& on)>& fails) {
  Bisection result;
  std::vector<std::size_t> all(differences);
  for (std::size_t i = 0; i < differences; ++i) all[i] = i;
  int probes = 0, failures = 0;
  const auto rate_is_known = [&] { return failures == probes || failures == 0 || failures >= kFailures; };
  while (probes < kProbes || (!rate_is_known() && probes < kMostProbes)) {
    PINCH_ASSIGN(failed, fails(all));
    ++probes;
    failures += failed ? 1 : 0;
  }
  result.runs = probes;
  if (failures == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the failing setting did not fail in {} runs; a fault of 1 in {:.0f} or rarer can hide so",
                             probes, 1 / rate_upper(0, probes, 0.95)),
                 ""};
  }
  result.failure_rate = static_cast<double>(failures) / probes;
  const bool flaky = failures < probes;
  // Half of the error goes to the rate, taken at its lower confidence bound, half to the answers: delta debugging asks
  // at most n^2 + 3n times.
  const double n = static_cast<double>(std::max<std::size_t>(differences, 1));
  const double share = error_rate / 2 / (n * n + 3 * n + 1);
  const double rate = flaky ? 1 - rate_upper(probes - failures, probes, 1 - error_rate / 2) : 1;
  if (flaky) result.repeats = runs_needed(rate, 1 - share);
  Search search(fails, result);
  PINCH_ASSIGN(passing_fails, search.test({}));
  if (passing_fails) {
    return Error{ErrorCode::kInvalidArgument, "the passing setting fails too; nothing that differs explains it", ""};
  }
  PINCH_ASSIGN(needed, search.minimise(all));
  result.needed = std::move(needed);
  if (flaky) result.error_rate = error_rate / 2 + result.tests * missed_probability(rate, result.repeats);
  return result;
}

}  // namespace pinch::check
