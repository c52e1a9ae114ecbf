#include "workbench/check/bisect.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "workbench/check/flake.h"

namespace pinch::check {
namespace {

constexpr int kProbes = 20;

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
  int failures = 0;
  for (int probe = 0; probe < kProbes; ++probe) {
    ++result.runs;
    PINCH_ASSIGN(failed, fails(all));
    failures += failed ? 1 : 0;
  }
  if (failures == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the failing setting did not fail in {} runs; a fault of 1 in {:.0f} or rarer can hide so",
                             kProbes, 1 / rate_upper(0, kProbes, 0.95)),
                 ""};
  }
  result.failure_rate = static_cast<double>(failures) / kProbes;
  // Delta debugging asks at most n^2 + 3n times; each answer may err by its share.
  const double n = static_cast<double>(std::max<std::size_t>(differences, 1));
  const double share = error_rate / (n * n + 3 * n + 1);
  if (failures < kProbes) result.repeats = runs_needed(result.failure_rate, 1 - share);
  Search search(fails, result);
  PINCH_ASSIGN(passing_fails, search.test({}));
  if (passing_fails) {
    return Error{ErrorCode::kInvalidArgument, "the passing setting fails too; nothing that differs explains it", ""};
  }
  PINCH_ASSIGN(needed, search.minimise(all));
  result.needed = std::move(needed);
  result.error_rate = failures < kProbes ? result.tests * missed_probability(result.failure_rate, result.repeats) : 0;
  return result;
}

}  // namespace pinch::check
