#include "workbench/measure/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "tests/support/simulated_machine.h"
#include "workbench/measure/statistics.h"

namespace pinch::measure {
namespace {

using test::SimulatedMachine;

std::vector<Candidate> candidates(const std::vector<double>& true_ns) {
  std::vector<Candidate> result;
  for (std::size_t i = 0; i < true_ns.size(); ++i) result.push_back({i, 1, true_ns[i], false});
  return result;
}

Measurement measure(SimulatedMachine& machine, std::span<const Candidate> list, const Policy& policy,
                    const Hooks& hooks = {}) {
  return measure_rounds(machine, machine, machine, list, policy, hooks);
}

Policy warm_only() {
  Policy policy;
  policy.protocols = {Protocol::kWarm};
  return policy;
}

TEST(Rounds, MediansAreTheTrueTimesWithinTheNoiseTarget) {
  const std::vector<double> true_ns = {2e5, 2.1e5, 1.95e5};
  SimulatedMachine machine(true_ns, 1);
  const auto list = candidates(true_ns);
  const Measurement result = measure(machine, list, warm_only());
  EXPECT_EQ(result.stop, StopReason::kNoise);
  for (std::size_t i = 0; i < true_ns.size(); ++i) {
    const auto times = accepted_ns(result.tracks[i].samples, Protocol::kWarm);
    EXPECT_LE(relative_noise(times), 0.01);
    EXPECT_NEAR(summarize(times).median / true_ns[i], 1, 0.01);
  }
}

TEST(Rounds, SaysThatTheBudgetEndedANoisyMeasurement) {
  const std::vector<double> true_ns = {1e6, 1e6};
  SimulatedMachine machine(true_ns, 2);
  machine.noise = 0.5;
  Policy policy = warm_only();
  policy.budget_s = 0.05;
  const Measurement result = measure(machine, candidates(true_ns), policy);
  EXPECT_EQ(result.stop, StopReason::kBudget);
  EXPECT_LE(machine.wall_ns(), 0.05e9 + 10e6);
}

TEST(Rounds, SaysThatTheRoundsRanOut) {
  SimulatedMachine machine({1e6}, 3);
  machine.noise = 0.5;
  Policy policy = warm_only();
  policy.max_rounds = 8;
  const Measurement result = measure(machine, candidates({1e6}), policy);
  EXPECT_EQ(result.stop, StopReason::kRounds);
  EXPECT_EQ(result.rounds, 8);
  EXPECT_EQ(result.tracks[0].samples.size(), 8U);
}

TEST(Rounds, StopsOnRequestAndKeepsWhatItHas) {
  SimulatedMachine machine({1e6, 1e6}, 4);
  int asked = 0;
  Hooks hooks;
  hooks.stop_requested = [&] { return ++asked > 6; };
  int reports = 0;
  hooks.round_ended = [&](const RoundReport&) { ++reports; };
  const Measurement result = measure(machine, candidates({1e6, 1e6}), warm_only(), hooks);
  EXPECT_EQ(result.stop, StopReason::kInterrupted);
  EXPECT_GE(result.tracks[0].samples.size() + result.tracks[1].samples.size(), 3U);
  EXPECT_EQ(reports, result.rounds);
}

TEST(Rounds, EveryRoundTakesEveryCandidateInAnOrderThatTheSeedDecides) {
  const std::vector<double> true_ns(6, 1e6);
  const auto orders = [&](std::uint64_t seed) {
    SimulatedMachine machine(true_ns, 5);
    Policy policy = warm_only();
    policy.seed = seed;
    policy.long_call_ns = 0;  // no untimed calls, so that each run is a sample
    policy.max_rounds = 5;
    policy.noise_target = 0;
    measure(machine, candidates(true_ns), policy);
    return machine.order;
  };
  const auto order = orders(1);
  ASSERT_EQ(order.size(), 30U);
  const std::vector<std::size_t> first(order.begin(), order.begin() + 6);
  const std::vector<std::size_t> second(order.begin() + 6, order.begin() + 12);
  EXPECT_THAT(first, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(second, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_NE(first, second);
  EXPECT_EQ(order, orders(1));
  EXPECT_NE(order, orders(2));
}

TEST(Rounds, ShortCallsAreRepeatedToFillASample) {
  SimulatedMachine machine({1000}, 6);
  const Measurement result = measure(machine, candidates({1000}), warm_only());
  EXPECT_EQ(result.tracks[0].samples[0].calls, 300);
  EXPECT_NEAR(result.tracks[0].samples[0].ns_per_call(), 1000, 50);
}

TEST(Rounds, ColdAndWarmAreSeparateSamples) {
  SimulatedMachine machine({1e6}, 7);
  machine.cold_factor = 3;
  const Measurement result = measure(machine, candidates({1e6}), Policy{});
  EXPECT_NEAR(summarize(accepted_ns(result.tracks[0].samples, Protocol::kCold)).median / 3e6, 1, 0.01);
  EXPECT_NEAR(summarize(accepted_ns(result.tracks[0].samples, Protocol::kWarm)).median / 1e6, 1, 0.01);
}

TEST(Rounds, ASampleThatLostTheProcessorIsKeptButNotCounted) {
  SimulatedMachine machine({1e6}, 8);
  machine.stall_chance = 0.3;
  const Measurement result = measure(machine, candidates({1e6}), warm_only());
  const auto& samples = result.tracks[0].samples;
  const auto times = accepted_ns(samples, Protocol::kWarm);
  EXPECT_LT(times.size(), samples.size());
  EXPECT_NEAR(summarize(times).max / 1e6, 1, 0.05);
}

TEST(Rounds, ASampleThatHadOneCoreOfTwoIsNotCounted) {
  SimulatedMachine machine({1e6}, 9);
  machine.threads = 1;
  const std::vector<Candidate> two_threads = {{0, 2, 1e6, false}};
  Policy policy = warm_only();
  policy.max_rounds = 6;
  const Measurement result = measure(machine, two_threads, policy);
  EXPECT_EQ(result.tracks[0].samples.size(), 6U);
  EXPECT_TRUE(accepted_ns(result.tracks[0].samples, Protocol::kWarm).empty());
}

TEST(Rounds, ASampleInWhichTheClockMovedIsNotCounted) {
  SimulatedMachine machine({1e6}, 10);
  machine.noise = 1e-4;
  // A round is an untimed call, a reading of 0.1 ms, a sample and a reading. The rate falls by a third within the third
  // round's sample and stays there: that sample sees the move, later ones do not.
  machine.clock_ghz = [](double wall_ns) { return wall_ns < 6e6 ? 3.0 : 2.0; };
  Policy policy = warm_only();
  policy.noise_target = 0;
  policy.max_rounds = 10;
  const Measurement result = measure(machine, candidates({1e6}), policy);
  EXPECT_NEAR(result.clock_drift, 1.0 / 3, 1e-9);
  EXPECT_EQ(result.clock_ghz, 3.0);
  const auto& samples = result.tracks[0].samples;
  ASSERT_EQ(samples.size(), 10U);
  for (std::size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(samples[i].accepted, i != 2) << i;
}

TEST(Rounds, SlowCandidatesLeaveTheSlowestFirstAndTheKeptOneStays) {
  const std::vector<double> true_ns = {1e6, 2e6, 1.2e6, 2e6};
  SimulatedMachine machine(true_ns, 11);
  auto list = candidates(true_ns);
  list[3].keep = true;
  Policy policy = warm_only();
  policy.noise_target = 0;
  policy.max_rounds = 20;
  const Measurement result = measure(machine, list, policy);
  EXPECT_TRUE(result.tracks[1].dropped);
  EXPECT_EQ(result.tracks[1].samples.size(), 2U);
  EXPECT_TRUE(result.tracks[2].dropped);
  EXPECT_EQ(result.tracks[2].samples.size(), 5U);
  EXPECT_FALSE(result.tracks[3].dropped);
  EXPECT_EQ(result.tracks[3].samples.size(), 20U);
}

TEST(Rounds, AFailingCallEndsItsCandidateAlone) {
  const std::vector<double> true_ns = {1e6, 1e6};
  SimulatedMachine machine(true_ns, 12);
  machine.failing = 1;
  const Measurement result = measure(machine, candidates(true_ns), warm_only());
  ASSERT_TRUE(result.tracks[1].failed);
  EXPECT_EQ(result.tracks[1].failed->text, "planted failure");
  EXPECT_TRUE(result.tracks[1].samples.empty());
  EXPECT_GE(result.tracks[0].samples.size(), 5U);
  EXPECT_EQ(std::count(machine.order.begin(), machine.order.end(), 1U), 1);
}

// A thread that spins beside this one for a few milliseconds: shorter than the tick up to which the process clock
// counts.
TEST(SystemClock, CountsTheCpuTimeOfOtherThreadsToTheMicrosecond) {
  std::atomic<bool> stop = false;
  std::atomic<double> spun_ns = 0;
  std::thread spinner([&] {
    timespec time{};
    while (!stop) {
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      spun_ns = static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    }
  });
  SystemClock clock;
  while (spun_ns < 1e6) std::this_thread::yield();
  clock.ready();
  const double other_start = spun_ns;
  const double start = clock.cpu_ns();
  timespec own_start{}, own_end{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own_start);
  while (spun_ns < other_start + 2e6) std::this_thread::yield();
  const double counted = clock.cpu_ns() - start;
  const double other = spun_ns - other_start;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own_end);
  stop = true;
  spinner.join();
  const double own = static_cast<double>(own_end.tv_sec - own_start.tv_sec) * 1e9 +
                     static_cast<double>(own_end.tv_nsec - own_start.tv_nsec);
  EXPECT_NEAR(counted, own + other, 0.3e6);
}

TEST(AddChain, TimeOfTheChainIsProportionalToItsLength) {
  SystemClock clock;
  const auto fastest_ns = [&](std::int64_t additions) {
    double fastest = 1e18;
    for (int i = 0; i < 20; ++i) {
      const double start = clock.wall_ns();
      EXPECT_EQ(run_add_chain(additions), static_cast<std::uint64_t>(additions));
      fastest = std::min(fastest, clock.wall_ns() - start);
    }
    return fastest;
  };
  EXPECT_NEAR(fastest_ns(1 << 18) / fastest_ns(1 << 16), 4, 0.6);
}

TEST(AddChain, ReadsAFrequencyThatACoreCanHave) {
  SystemClock clock;
  const double ghz = AddChain(clock).ghz();
  EXPECT_GT(ghz, 0.5);
  EXPECT_LT(ghz, 8.0);
}

}  // namespace
}  // namespace pinch::measure
