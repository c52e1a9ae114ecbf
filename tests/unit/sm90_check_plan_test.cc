// What sm90_check launches on a GPU, asked without one.
#include "tests/gpu/support/sm90_check_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace pinch::gpu_test {
namespace {

using gemm_bf16_fp4::sm90::sm90_device;
using gemm_bf16_fp4::sm90::tactics;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kUnlistedStep = 5;

Coverage full_coverage(const Device& device) {
  Coverage coverage;
  int index = 0;
  for (const CheckedProblem& p : full_problems()) {
    ++index;
    for (int variant = 0; variant < Coverage::kVariants; ++variant)
      for (const PlannedCheck& check : planned_checks(p, index + variant, kUnlistedStep, device))
        if (check.refused.empty()) coverage.add(check.tactic, p, variant, check.repeats, device);
  }
  return coverage;
}

TEST(Sm90CheckPlan, GivesEveryListedTactic40ProblemsAnd60Repeats) {
  const Device device = sm90_device(132);
  const Coverage coverage = full_coverage(device);
  ASSERT_EQ(tactics().size(), 132u);
  for (const Tactic& tactic : tactics()) {
    EXPECT_GE(coverage.least(tactic).problems, 40) << to_string(tactic);
    EXPECT_GE(coverage.least(tactic).repeats, 60) << to_string(tactic);
  }
  EXPECT_THAT(coverage.gaps(tactics()), IsEmpty());
  const Coverage::Least least = coverage.least(tactics());
  RecordProperty("least_problems", least.problems);
  RecordProperty("least_repeats", least.repeats);
}

TEST(Sm90CheckPlan, NamesWhatASelectionLeavesOut) {
  for (const char* set : {"core", "full"})
    EXPECT_EQ(planted_gaps_missed(compiled_tactics(set), sm90_device(132)), 0) << set;
  EXPECT_EQ(Coverage().gaps(tactics()).size(), tactics().size());
}

TEST(Sm90CheckPlan, HasAListedTacticOfEachFamilyThatMustRunAProblem) {
  const Device device = sm90_device(132);
  for (const auto problems : {full_problems(), reduced_problems()})
    for (const CheckedProblem& p : problems)
      for (int turn = 0; turn < kUnlistedStep; ++turn)
        EXPECT_THAT(families_missing(p, planned_checks(p, turn, kUnlistedStep, device)), IsEmpty())
            << p.m << " " << p.n << " " << p.k;
}

// 32 rows of half of k = 6656 are 208 KB, beside which nothing fits. Where the rows fit, a plan without one is told.
TEST(Sm90CheckPlan, ExpectsAStreamingTacticWhereActivationsFit) {
  EXPECT_TRUE(stream_must_run({1, 8, 32}));
  EXPECT_TRUE(stream_must_run({16, 8, 8192}));
  EXPECT_TRUE(stream_must_run({32, 1000, 4128}));
  EXPECT_FALSE(stream_must_run({32, 520, 6656}));
  EXPECT_FALSE(stream_must_run({33, 1000, 992}));
  EXPECT_THAT(families_missing({32, 1000, 4128}, {}), ElementsAre("wgmma", "stream"));
  EXPECT_THAT(families_missing({33, 1000, 992}, {}), ElementsAre("wgmma"));
}

TEST(Sm90CheckPlan, HasEachProblemOnceOfLegalSizes) {
  std::set<std::tuple<int, int, int>> seen;
  for (const CheckedProblem& p : full_problems()) {
    EXPECT_TRUE(seen.emplace(p.m, p.n, p.k).second) << p.m << " " << p.n << " " << p.k;
    EXPECT_TRUE(p.m >= 1 && p.n >= 8 && p.n % 8 == 0 && p.k >= 32 && p.k % 32 == 0);
  }
}

TEST(Sm90CheckPlan, HasEachTacticOnceAndEveryListedOneThatIsLegal) {
  const Device device = sm90_device(132);
  for (const CheckedProblem& p : full_problems()) {
    std::set<std::string> seen;
    std::size_t listed = 0, legal = 0;
    for (const PlannedCheck& check : planned_checks(p, 1, kUnlistedStep, device)) {
      EXPECT_TRUE(seen.insert(to_string(check.tactic)).second) << to_string(check.tactic);
      EXPECT_FALSE(must_be_legal(check.tactic) && !check.refused.empty()) << to_string(check.tactic);
      const bool is_listed = std::find(tactics().begin(), tactics().end(), check.tactic) != tactics().end();
      listed += is_listed && check.refused.empty() && check.repeats == p.repeats;
    }
    for (const Tactic& tactic : tactics()) legal += illegal(tactic, {p.m, p.n, p.k}, device).empty();
    EXPECT_EQ(listed, legal) << p.m << " " << p.n << " " << p.k;
  }
}

TEST(Sm90CheckPlan, SamplesUnlistedSchedulesInTurn) {
  const Device device = sm90_device(132);
  const CheckedProblem p{3, 72, 1056};
  const auto legal = [&](int turn, int step) {
    std::multiset<std::string> names;
    for (const PlannedCheck& check : planned_checks(p, turn, step, device))
      if (check.refused.empty()) names.insert(to_string(check.tactic));
    return names;
  };
  const auto every = legal(0, 1);
  std::set<std::string> in_turn;
  for (int turn = 0; turn < kUnlistedStep; ++turn)
    for (const std::string& name : legal(turn, kUnlistedStep)) in_turn.insert(name);
  EXPECT_EQ(in_turn, std::set<std::string>(every.begin(), every.end()));
  EXPECT_LT(legal(0, kUnlistedStep).size(), every.size() / 2 + tactics().size());
}

// A tile's tails and what cuts it, told by hand.
TEST(Sm90CheckPlan, KnowsTailsAndPartialSums) {
  using namespace gemm_bf16_fp4::sm90;
  const Device device = sm90_device(132);
  const WgmmaTile tile{.tile_n = 128, .tile_m = 64, .tile_k = 128, .stages = 7, .group = 4};
  const Tactic whole = WgmmaTactic{tile, 1, 1}, cut = WgmmaTactic{tile, kStreamK, 1};
  EXPECT_TRUE(has_tails(whole, {1, 72, 96}));
  EXPECT_FALSE(has_tails(whole, {1, 128, 96}));
  EXPECT_FALSE(has_tails(whole, {1, 72, 128}));
  EXPECT_FALSE(can_share(whole) || shares(whole, {1, 72, 1056}, device));
  EXPECT_TRUE(can_share(cut) && shares(cut, {1, 72, 1056}, device));
  EXPECT_FALSE(shares(cut, {64, 132 * 128, 1056}, device));
  const Tactic balanced = StreamTactic{.balance = 1};
  EXPECT_TRUE(has_tails(balanced, {1, 72, 96}));
  EXPECT_FALSE(has_tails(balanced, {1, 64, 96}));
  EXPECT_TRUE(can_share(balanced) && shares(balanced, {1, 72, 96}, device));
  EXPECT_FALSE(shares(balanced, {1, 72, 64}, device));
  EXPECT_FALSE(can_share(StreamTactic{}));
}

}  // namespace
}  // namespace pinch::gpu_test
