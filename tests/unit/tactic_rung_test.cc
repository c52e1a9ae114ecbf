#include "workbench/ladder/tactic_rung.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>

#include "tests/support/simulated_subject.h"

namespace pinch::ladder {
namespace {

using measure::Protocol;
using measure::StopReason;
using measure::Verdict;
using test::SimulatedSubject;

class MemoryJournal final : public Journal {
 public:
  std::map<std::string, Verdict> verdicts;
  std::map<std::string, std::size_t> sample_counts;
  void point(const store::Point& point) override { verdicts[point.tactic] = point.verdict; }
  void samples(std::span<const store::TuneStore::TacticSamples> round) override {
    for (const auto& tactic : round) sample_counts[std::string(tactic.tactic)] += tactic.samples.size();
  }
  void verdict(const store::Point& point) override { verdicts[point.tactic] = point.verdict; }
};

Result<RungResult> run(SimulatedSubject& subject, const RungOptions& options = {}, const RungHooks& hooks = {}) {
  MemoryJournal journal;
  return run_tactic_rung(subject, subject.machine, subject.machine, options, journal, hooks);
}

std::vector<double> ascending(std::size_t count) {
  std::vector<double> costs(count);
  std::iota(costs.begin(), costs.end(), 1.0);
  return costs;
}

TEST(TacticRung, FindsTheBestAndTheRegretOfTheDefault) {
  SimulatedSubject subject({1.30e6, 1.10e6, 1.00e6, 1.50e6}, ascending(4), 1);
  const auto result = run(subject);
  ASSERT_TRUE(result.ok()) << result.error().message();
  const Conclusion& conclusion = result->conclusion;
  EXPECT_EQ(conclusion.default_tactic, "tactic0");
  EXPECT_EQ(conclusion.best, "tactic2");
  EXPECT_EQ(conclusion.fastest, "tactic2");
  EXPECT_NEAR(conclusion.regret, 1.3, 0.02);
  ASSERT_TRUE(conclusion.regret_interval);
  EXPECT_GT(conclusion.regret_interval->low, 1.28);
  EXPECT_LT(conclusion.regret_interval->high, 1.32);
  EXPECT_LT(conclusion.regret_interval->low, conclusion.regret_interval->high);
  EXPECT_LT(conclusion.aa_spread, 0.01);
  EXPECT_EQ(result->stop, StopReason::kNoise);
}

store::Point timed_point(std::size_t rank, std::span<const double> ns) {
  store::Point point;
  point.tactic = "tactic" + std::to_string(rank);
  point.rank = rank;
  point.verdict = Verdict::kOk;
  for (const double time : ns) {
    point.samples.push_back({.round = static_cast<int>(point.samples.size()), .wall_ns = time, .accepted = true});
  }
  return point;
}

TEST(Conclusion, NeedsFivePairedRoundsForAnInterval) {
  const std::vector<double> standard(5, 130), fast(5, 100);
  const std::span<const double> four = std::span(fast).first(4);
  const std::vector<store::Point> few = {timed_point(0, standard), timed_point(1, four)};
  const std::vector<store::Point> enough = {timed_point(0, standard), timed_point(1, fast)};
  EXPECT_FALSE(conclude(few, measure::Policy{}).regret_interval);
  EXPECT_TRUE(conclude(enough, measure::Policy{}).regret_interval);
}

TEST(Conclusion, LetsNoTacticWinByOneLuckySample) {
  const std::vector<double> standard = {130, 131, 129}, fast = {100, 101, 99}, lucky = {60};
  const std::vector<store::Point> points = {timed_point(0, standard), timed_point(1, fast), timed_point(2, lucky)};
  EXPECT_EQ(conclude(points, measure::Policy{}).fastest, "tactic1");
  const std::vector<store::Point> singles = {timed_point(0, std::span(standard).first(1)), timed_point(1, lucky)};
  EXPECT_EQ(conclude(singles, measure::Policy{}).fastest, "tactic1");
}

// Ten tactics within 0.8% of one another, rank 3 truly the fastest; runs of other processes in between.
std::map<std::string, int> picks_over_seeds(double tie_band, int seeds) {
  std::vector<double> true_ns;
  for (int i = 0; i < 10; ++i) true_ns.push_back(1e6 * (1 + 0.001 * std::abs(i - 3)));
  for (int i = 0; i < 10; ++i) true_ns.push_back(1e6 * (1.2 + 0.1 * i));
  std::map<std::string, int> picks;
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedSubject subject(true_ns, ascending(true_ns.size()), static_cast<std::uint64_t>(seed));
    subject.machine.noise = 0.02;
    subject.machine.stall_chance = 0.05;
    RungOptions options;
    options.policy.tie_band = tie_band;
    options.policy.seed = static_cast<std::uint64_t>(seed);
    const auto result = run(subject, options);
    EXPECT_TRUE(result.ok());
    ++picks[result->conclusion.best];
  }
  return picks;
}

TEST(TacticRung, PicksTheSameInAtLeast95PercentOfSeedsWhereTiesAreInsideTheNoise) {
  const auto picks = picks_over_seeds(measure::Policy{}.tie_band, 200);
  EXPECT_GE(picks.at("tactic0"), 190) << "picks differed in " << picks.size() << " ways";
}

TEST(TacticRung, TheSmallestMedianAloneWouldNot) {
  std::map<std::string, int> fastest;
  for (int seed = 0; seed < 100; ++seed) {
    SimulatedSubject noisy(std::vector<double>(10, 1e6), ascending(10), static_cast<std::uint64_t>(seed));
    noisy.machine.noise = 0.02;
    ++fastest[run(noisy)->conclusion.fastest];
  }
  const auto most = std::max_element(fastest.begin(), fastest.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_LT(most->second, 50);
}

TEST(TacticRung, RefusesAWrongResultBeforeTimingIt) {
  SimulatedSubject subject({1e6, 0.2e6, 1.1e6}, ascending(3), 2);
  subject.wrong = {1};
  MemoryJournal journal;
  const auto result = run_tactic_rung(subject, subject.machine, subject.machine, {}, journal);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->points[1].verdict, Verdict::kWrong);
  EXPECT_EQ(result->points[1].why, "rel_l2 0.5");
  EXPECT_TRUE(result->points[1].samples.empty());
  EXPECT_EQ(std::count(subject.machine.order.begin(), subject.machine.order.end(), 1U), 0);
  EXPECT_EQ(result->conclusion.best, "tactic0");
  EXPECT_EQ(journal.verdicts.at("tactic1"), Verdict::kWrong);
  EXPECT_EQ(journal.sample_counts.count("tactic1"), 0U);
}

TEST(TacticRung, AWrongDefaultLeavesNoRegretButABest) {
  SimulatedSubject subject({1e6, 1.2e6}, ascending(2), 3);
  subject.wrong = {0};
  const auto result = run(subject);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->conclusion.default_tactic, "tactic0");
  EXPECT_EQ(result->conclusion.best, "tactic1");
  EXPECT_EQ(result->conclusion.regret, 0);
}

TEST(TacticRung, NoRightResultIsAnErrorThatSaysWhy) {
  SimulatedSubject subject({1e6, 1e6}, ascending(2), 4);
  subject.wrong = {0, 1};
  const auto result = run(subject);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kIllegal);
  EXPECT_THAT(result.error().message(), testing::HasSubstr("rel_l2 0.5"));
}

TEST(TacticRung, ASmallBudgetTakesTheTopAndARandomFew) {
  const std::size_t count = 100;
  const auto reached = [&](std::uint64_t seed) {
    SimulatedSubject subject(std::vector<double>(count, 10e6), ascending(count), 5);
    RungOptions options;
    options.policy.budget_s = 4;  // a candidate takes 0.2 s of the fewest rounds
    options.policy.seed = seed;
    const auto result = run(subject, options);
    EXPECT_EQ(result->legal, count);
    EXPECT_LE(subject.machine.wall_ns(), 4.5e9);
    std::vector<std::int64_t> ranks;
    for (const auto& point : result->points) ranks.push_back(point.rank);
    return ranks;
  };
  const auto ranks = reached(1);
  ASSERT_GE(ranks.size(), 10U);
  ASSERT_LT(ranks.size(), 40U);
  EXPECT_THAT((std::vector<std::int64_t>(ranks.begin(), ranks.begin() + 8)),
              testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_GT(ranks.back(), static_cast<std::int64_t>(ranks.size()));
  EXPECT_NE(ranks, reached(2));
}

TEST(TacticRung, AllMeasuresEveryLegalTacticWhateverTheBudget) {
  SimulatedSubject subject(std::vector<double>(30, 10e6), ascending(30), 6);
  RungOptions options;
  options.policy.budget_s = 0.5;
  options.all = true;
  const auto result = run(subject, options);
  ASSERT_EQ(result->points.size(), 30U);
  for (const auto& point : result->points) {
    EXPECT_EQ(point.verdict, Verdict::kOk) << point.tactic;
    EXPECT_GE(accepted_ns(point.samples, Protocol::kCold).size(), 2U) << point.tactic;
  }
}

TEST(TacticRung, AnInterruptKeepsWhatWasMeasured) {
  SimulatedSubject subject(std::vector<double>(4, 1e6), ascending(4), 7);
  RungHooks hooks;
  std::size_t rounds = 0;
  hooks.progress = [&](const Progress& progress) { rounds = progress.phase == "measure" ? progress.done : 0; };
  hooks.stop_requested = [&] { return rounds >= 3; };
  MemoryJournal journal;
  const auto result = run_tactic_rung(subject, subject.machine, subject.machine, {}, journal, hooks);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->stop, StopReason::kInterrupted);
  for (const auto& point : result->points) {
    EXPECT_EQ(accepted_ns(point.samples, Protocol::kCold).size(), 3U);
    EXPECT_GE(journal.sample_counts.at(point.tactic), 6U);
  }
  EXPECT_FALSE(result->conclusion.best.empty());
}

TEST(TacticRung, AnInterruptBeforeTheFirstCheckIsAnEmptyResult) {
  SimulatedSubject subject({1e6}, {1}, 8);
  RungHooks hooks;
  hooks.stop_requested = [] { return true; };
  const auto result = run(subject, {}, hooks);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->stop, StopReason::kInterrupted);
  EXPECT_TRUE(result->points.empty());
}

TEST(TacticRung, ABusyMachineDecidesNothingAndTheDefaultStands) {
  SimulatedSubject subject({1e6, 1e6}, ascending(2), 9);
  subject.machine.stall_chance = 1;
  RungOptions options;
  options.policy.budget_s = 1;
  const auto result = run(subject, options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->points[0].verdict, Verdict::kUnstable);
  EXPECT_THAT(result->points[0].why, testing::HasSubstr("0 of "));
  EXPECT_FALSE(result->conclusion.decided);
  EXPECT_EQ(result->conclusion.best, "tactic0");
  EXPECT_EQ(result->conclusion.fastest, "");
  EXPECT_EQ(result->conclusion.regret, 0);
}

TEST(TacticRung, ADefaultThatWasNotReachedDecidesNothing) {
  SimulatedSubject subject({1e6, 0.5e6}, ascending(2), 10);
  RungHooks hooks;
  int asked = 0;
  hooks.stop_requested = [&] { return ++asked > 2; };  // both are checked, none is timed
  const auto result = run(subject, {}, hooks);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->points[0].verdict, Verdict::kTimeout);
  EXPECT_FALSE(result->conclusion.decided);
  EXPECT_EQ(result->conclusion.best, "tactic0");
}

// Another process takes one of two cores: the default's two threads share what is left, a slower tactic's one thread
// does not notice.
TEST(TacticRung, ATacticOfFewerThreadsDoesNotWinByABusyMachine) {
  store::Point standard;
  standard.tactic = "two_threads";
  standard.threads = 2;
  standard.verdict = Verdict::kUnstable;
  store::Point single;
  single.tactic = "one_thread";
  single.rank = 1;
  for (int round = 0; round < 6; ++round) {
    standard.samples.push_back({round, Protocol::kCold, 1, 1e6, 1e6, 3.0, false});
    single.samples.push_back({round, Protocol::kCold, 1, 1.5e6, 1.5e6, 3.0, true});
  }
  const Conclusion conclusion = conclude(std::vector{standard, single}, measure::Policy{});
  EXPECT_EQ(conclusion.best, "two_threads");
  EXPECT_FALSE(conclusion.decided);
}

TEST(StoreJournal, AStoreThatFailsIsToldOnceAndTheTuneGoesOn) {
  std::string folder = testing::TempDir() + "pinch_journal_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  auto opened = store::TuneStore::open(folder + "/pinch.sqlite");
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(opened->database().execute("PRAGMA query_only = ON").ok());
  int warnings = 0;
  StoreJournal journal(&*opened, {"d", "i", "b", "t", "p", "m1", "2", "c"}, [&](const Error&) { ++warnings; });
  SimulatedSubject subject({1e6, 1.2e6}, ascending(2), 10);
  const auto result = run_tactic_rung(subject, subject.machine, subject.machine, {}, journal);
  journal.finish("{}");
  EXPECT_EQ(warnings, 1);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->conclusion.best, "tactic0");
  std::filesystem::remove_all(folder);
}

TEST(StoreJournal, AStoredRunConcludesAsTheFreshOneDid) {
  std::string folder = testing::TempDir() + "pinch_journal_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  auto opened = store::TuneStore::open(folder + "/pinch.sqlite");
  ASSERT_TRUE(opened.ok());
  const store::TuneKey key = {"d", "i", "b", "t", "p", "m1", "2", "c"};
  SimulatedSubject subject({1.2e6, 1e6, 1.5e6}, ascending(3), 11);
  StoreJournal journal(&*opened, key, [](const Error& error) { ADD_FAILURE() << error.message(); });
  const auto fresh = run_tactic_rung(subject, subject.machine, subject.machine, {}, journal);
  journal.finish("{}");
  ASSERT_TRUE(fresh.ok());
  const auto found = opened->find(key);
  ASSERT_TRUE(found.ok() && found->has_value());
  const Conclusion again = conclude((*found)->points, measure::Policy{});
  EXPECT_EQ(again.best, fresh->conclusion.best);
  EXPECT_EQ(again.regret, fresh->conclusion.regret);
  EXPECT_EQ(again.aa_spread, fresh->conclusion.aa_spread);
  ASSERT_TRUE(again.regret_interval && fresh->conclusion.regret_interval);
  EXPECT_EQ(again.regret_interval->low, fresh->conclusion.regret_interval->low);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace pinch::ladder
