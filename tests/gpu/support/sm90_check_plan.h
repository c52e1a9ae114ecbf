// Which sm_90a tactic sm90_check launches on which problem and how often, and whether each got its share. No CUDA
// header, so that a unit test asks it of all tactics without a GPU.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/tactics.h"

namespace pinch::gpu_test {

using gemm_bf16_fp4::sm90::Device, gemm_bf16_fp4::sm90::Tactic;

struct CheckedProblem {
  int m, n, k;
  int repeats = 1;
  bool nan_and_inf = false;
};

std::span<const CheckedProblem> full_problems();
// Small, for compute-sanitizer.
std::span<const CheckedProblem> reduced_problems();

struct PlannedCheck {
  Tactic tactic;
  std::string_view refused;  // the rule; empty: it is launched
  int repeats = 0;
};

// Of one problem, each tactic once: every listed one, launched p.repeats times, and of the legal schedules that the
// compiled kernels can run besides (raster 8, split 3, more of the streaming kernel) every `unlisted_step`th, counted
// from `turn`, launched once.
std::vector<PlannedCheck> planned_checks(const CheckedProblem& p, int turn, int unlisted_step, const Device& device);

// A tile's unsplit schedule, which no rule may refuse.
bool must_be_legal(const Tactic& tactic);

// Whether a listed streaming tactic must run the problem, told without its rules: up to 32 rows, of which a block keeps
// its part of k in shared memory; the list's least part is half.
bool stream_must_run(const CheckedProblem& p);
// "wgmma" or "stream" where no listed tactic of it is legal in this plan of the problem though one must be; empty:
// none.
std::vector<std::string> families_missing(const CheckedProblem& p, std::span<const PlannedCheck> plan);

// The listed tactics whose kernels a build holds: PINCH_TACTICS is core or full.
std::vector<Tactic> compiled_tactics(std::string_view set);

// Whether n and k both end in a part of the tactic's tile.
bool has_tails(const Tactic& tactic, const CheckedProblem& p);
// Whether teams, blocks or clusters add up partial sums of one tile: ever, and on this problem (legal ones).
bool can_share(const Tactic& tactic);
bool shares(const Tactic& tactic, const CheckedProblem& p, const Device& device);

// What the listed tactics got. A variant is a weight format with an output type.
class Coverage {
 public:
  static constexpr int kFewestProblems = 40;  // with tails, in every variant
  static constexpr int kFewestRepeats = 60;   // on a problem with tails, and on one where partial sums are added up
  static constexpr int kVariants = 4;

  void add(const Tactic& tactic, const CheckedProblem& p, int variant, int repeats, const Device& device);

  struct Least {
    int problems, repeats;
  };
  Least least(const Tactic& tactic) const;                              // of its variants
  Least least(std::span<const Tactic> needed) const;                    // of any
  std::vector<std::string> gaps(std::span<const Tactic> needed) const;  // a text for each tactic that got too little

 private:
  struct Got {
    int problems = 0, repeats_with_tails = 0, repeats_that_share = 0;
  };
  std::map<std::string, std::array<Got, kVariants>> got_;
};

// Coverage::gaps on the full plan of `needed` and on plans with something left out, families_missing on problems' plans
// and on those without a family. Returns how many of these they miss, and prints which.
int planted_gaps_missed(std::span<const Tactic> needed, const Device& device);

}  // namespace pinch::gpu_test
