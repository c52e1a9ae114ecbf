// What the analysis says of a trace, and what looking cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/temp_folder.h"
#include "tests/unit/trace_support.h"
#include "workbench/trace/cost.h"
#include "workbench/trace/counts.h"
#include "workbench/trace/export.h"

namespace pinch::trace {
namespace {

using test::TraceBuilder;
using testing::HasSubstr;

// --- the analysis

TEST(TraceAnalysis, KnowsAPipelineWhoseConsumerIsLate) {
  TraceBuilder builder = two_roles();
  // The consumer works 100 of 100; the producer 30, and waits 70 for a slot.
  steps(builder.track(0, 0), kProducer, 1000, 100, 200, kSlot, 70);
  steps(builder.track(0, 1), kConsumer, 1000, 100, 200, kFull, 0);
  const Analysis report = analysed(builder);
  const RoleReport &producer = *report.role("producer"), &consumer = *report.role("consumer");
  EXPECT_EQ(producer.steps, 200U);
  EXPECT_EQ(producer.period_median, 100);
  EXPECT_EQ(producer.busy_median, 30);
  EXPECT_NEAR(producer.busy, 0.30, 1e-9);
  ASSERT_EQ(producer.waits.size(), 1U);
  EXPECT_EQ(producer.waits[0].name, "slot");
  EXPECT_NEAR(producer.waits[0].fraction, 0.70, 1e-9);
  EXPECT_NEAR(consumer.busy, 1, 1e-9);
  EXPECT_EQ(consumer.blamed, 1);
  EXPECT_TRUE(consumer.unmarked);
  EXPECT_EQ(report.critical_role, "consumer");
  EXPECT_NEAR(report.critical_margin, 0.70, 1e-9);
  EXPECT_EQ(report.unit, "ns");
}

TEST(TraceAnalysis, TellsWhatTheMatrixUnitWaitsFor) {
  TraceBuilder builder = two_roles();
  builder.header.flags = kReportCycles;
  steps(builder.track(0, 0), kProducer, 1000, 1000, 100, kSlot, 0);
  steps(builder.track(0, 1), kConsumer, 1000, 1000, 100, kFull, 400);
  const Analysis report = analysed(builder);
  EXPECT_EQ(report.unit, "cycles");
  EXPECT_EQ(report.critical_role, "producer");
  EXPECT_EQ(report.matrix.role, "consumer");
  EXPECT_TRUE(report.matrix.has_p);
  EXPECT_NEAR(report.matrix.wait_p, 0.4, 1e-9);
  EXPECT_NEAR(report.matrix.bubbles, 0.4, 1e-9);
  EXPECT_EQ(report.matrix.bubble_median, 400);
  EXPECT_NEAR(report.matrix.bubble_longest, 400, 1e-6);
}

TEST(TraceAnalysis, TwoWarpsThatTakeTurnsLeaveNoBubble) {
  TraceBuilder builder = two_roles();
  steps(builder.track(0, 0), kConsumer, 1000, 200, 100, kFull, 100);
  steps(builder.track(0, 1), kConsumer, 1100, 200, 100, kFull, 100);
  EXPECT_NEAR(analysed(builder).matrix.bubbles, 0, 1e-9);
  builder.tracks.pop_back();
  EXPECT_NEAR(analysed(builder).matrix.bubbles, 0.5, 1e-9);
}

TEST(TraceAnalysis, FindsTheSteadyState) {
  TraceBuilder builder = two_roles();
  auto& track = builder.track(0, 0);
  std::uint64_t at = 1000;
  unsigned n = 0;
  const auto run = [&](unsigned count, std::uint64_t period, std::uint64_t waited) {
    for (unsigned i = 0; i < count; ++i, at += period) {
      track.step(at, kProducer, n++);
      if (waited > 0) track.wait(at + period, kSlot, waited);
    }
  };
  run(13, 1000, 900);
  run(100, 100, 20);
  run(9, 700, 650);
  track.end(at);
  const Analysis report = analysed(builder);
  EXPECT_EQ(report.steady_groups, 1U);
  EXPECT_EQ(report.startup_ns, 13000);
  EXPECT_EQ(report.tail_ns, 9 * 700);
  EXPECT_EQ(report.role("producer")->period_p99, 100);
  EXPECT_NEAR(report.role("producer")->busy, 0.8, 1e-9);
}

TEST(TraceAnalysis, FindsTheSteadyStateOfALongRunInConstantMemory) {
  TraceBuilder builder = two_roles();
  auto& track = builder.track(0, 0);
  std::uint64_t at = 1000;
  for (unsigned i = 0; i < 100000; ++i, at += i < 20000 ? 900 : 300) track.step(at, kProducer, i);
  track.end(at);
  const Analysis report = analysed(builder);
  EXPECT_EQ(report.steady_groups, 1U);
  EXPECT_NEAR(report.startup_ns, 20000 * 900.0, 128 * 900.0);  // a batch is 128 steps
  EXPECT_EQ(report.role("producer")->period_median, 300);
}

TEST(TraceAnalysis, ALoopInALoopIsSteadyInTheMean) {
  TraceBuilder builder = two_roles();
  auto& track = builder.track(0, 0);
  std::uint64_t at = 1000;
  unsigned n = 0;
  for (; n < 30; at += 2000) track.step(at, kProducer, n++);  // start-up
  for (; n < 600; at += n % 3 == 0 ? 900 : 300) track.step(at, kProducer, n++);
  track.end(at);
  const Analysis report = analysed(builder);
  EXPECT_EQ(report.steady_groups, 1U);
  EXPECT_NEAR(report.startup_ns, 60000, 16 * 2000);
  EXPECT_EQ(report.role("producer")->period_median, 300);
  EXPECT_EQ(report.role("producer")->period_p99, 900);
}

TEST(TraceAnalysis, NoMeanMakesADriftSteady) {
  for (const unsigned slope : {1U, 3U, 10U}) {
    TraceBuilder builder = two_roles();
    auto& track = builder.track(0, 0);
    std::uint64_t at = 1000;
    for (unsigned i = 0; i < 512; ++i, at += 1000 + slope * i) track.step(at, kProducer, i);
    track.end(at);
    EXPECT_EQ(analysed(builder).steady_groups, 0U) << slope;
  }
}

TEST(TraceAnalysis, SaysWhereNoSteadyStateIs) {
  TraceBuilder drifting = two_roles();
  auto& track = drifting.track(0, 0);
  std::uint64_t at = 1000;
  for (unsigned i = 0; i < 200; ++i, at += 100 + i) track.step(at, kProducer, i);
  track.end(at);
  EXPECT_EQ(analysed(drifting).steady_groups, 0U);

  TraceBuilder few = two_roles();
  steps(few.track(0, 0), kProducer, 1000, 100, 6, kSlot, 0);
  const Analysis report = analysed(few);
  EXPECT_EQ(report.steady_groups, 0U);
  EXPECT_EQ(report.role("producer")->period_median, 100);  // of the whole trace, and it says so
}

TEST(TraceAnalysis, APeriodsP99IsOfTheSlowOnes) {
  TraceBuilder builder = two_roles();
  auto& track = builder.track(0, 0);
  std::uint64_t at = 1000;
  for (unsigned i = 0; i < 1000; ++i, at += i % 50 == 25 ? 5000 : 100) track.step(at, kProducer, i);
  track.end(at);
  const RoleReport role = *analysed(builder).role("producer");
  EXPECT_EQ(role.period_median, 100);
  EXPECT_EQ(role.period_p99, 5000);
}

TEST(TraceAnalysis, AlignsUnitsWhoseClocksAreFarApart) {
  TraceBuilder builder = two_roles();
  builder.header.clock_hz = 0;
  const auto group = [&](unsigned sm, std::uint64_t ticks, std::uint64_t begin_ns, std::uint64_t ticks_per_ns,
                         unsigned count) {
    auto& track = builder.track(sm, 0, ticks, begin_ns);
    track.entry.unit = sm;
    steps(track, kProducer, ticks, 100 * ticks_per_ns, count, kSlot, 0);
    track.entry.end_ns = begin_ns + 100 * count;
  };
  group(0, 5, 7000, 2, 100);
  group(1, std::uint64_t{1} << 40, 7000, 1, 100);
  group(2, 77, 7100, 3, 200);
  const Analysis report = analysed(builder);
  EXPECT_NEAR(report.span_ns, 20100, 1);
  EXPECT_EQ(report.units, 3U);
  EXPECT_EQ(report.slowest_unit, 2U);
  EXPECT_NEAR(report.unit_imbalance, 2, 1e-3);
  EXPECT_NEAR(report.role("producer")->period_median, 100, 0.1);
}

TEST(TraceAnalysis, TellsTheSlowestWarp) {
  TraceBuilder builder = two_roles();
  for (unsigned warp = 0; warp < 4; ++warp)
    steps(builder.track(0, warp), kConsumer, 1000, warp == 3 ? 150 : 100, 60, kFull, 0);
  EXPECT_NEAR(analysed(builder).role("consumer")->slowest_track, 1.5, 1e-6);
}

TEST(TraceAnalysis, ARoleThatNeverEndsIsCountedAndItsLastStepIsNoPeriod) {
  TraceBuilder builder = two_roles();
  steps(builder.track(0, 0), kProducer, 1000, 100, 50, kSlot, 0);
  auto& hung = builder.track(0, 1);
  for (unsigned i = 0; i < 50; ++i) hung.step(1000 + i * 100, kConsumer, i);
  const Analysis report = analysed(builder);
  EXPECT_EQ(report.unfinished_tracks, 1U);
  EXPECT_EQ(report.role("consumer")->unfinished, 1U);
  EXPECT_EQ(report.role("producer")->unfinished, 0U);
  EXPECT_EQ(report.role("consumer")->period_p99, 100);
}

TEST(TraceAnalysis, RefusesATraceWithoutSteps) {
  TraceBuilder builder = two_roles();
  builder.track(0, 0).wait(1100, kSlot, 10);
  const auto bytes = builder.bytes();
  const auto report = analyse(parsed(bytes));
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().text, HasSubstr("PINCH_TRACE_STEP"));
}

TEST(TraceCounts, QuantilesAreWithinATenthOfAPercent) {
  std::mt19937_64 random(3);
  Counts counts;
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(std::uint64_t{1} << (random() % 40));
    values.back() += random() % values.back();
    counts.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double p : {0.01, 0.25, 0.5, 0.9, 0.99, 1.0}) {
    const auto exact = static_cast<double>(values[static_cast<std::size_t>(std::ceil(p * 20000)) - 1]);
    EXPECT_NEAR(counts.quantile(p), exact, exact / 1024) << p;
  }
}

// --- what looking cost

Result<Cost> cost_of(double coarse, double detailed) {
  double drift = 1;  // of the machine, from sample to sample: the rounds' ratios cancel most of it
  return measure_cost(9, [&, coarse, detailed](Level level) -> Result<double> {
    drift *= 1.001;
    return 1000 * drift * (level == Level::kOff ? 1 : level == Level::kCoarse ? coarse : detailed);
  });
}

TEST(TraceCost, IsTheMedianRatioOfRoundsThatDrift) {
  const auto cost = cost_of(1.03, 1.2);
  ASSERT_TRUE(cost.ok());
  EXPECT_NEAR(*cost->inflation(Level::kCoarse), 0.03, 0.003);
  EXPECT_NEAR(*cost->inflation(Level::kDetailed), 0.2, 0.003);
  const measure::Interval known = cost->inflation_interval(Level::kCoarse);
  EXPECT_LE(known.low, 0.03);
  EXPECT_GE(known.high, 0.03);
  EXPECT_TRUE(cost->absolute());
}

TEST(TraceCost, AboveFivePercentNoTimeIsAbsolute) {
  EXPECT_TRUE(cost_of(1.045, 2)->absolute());
  EXPECT_FALSE(cost_of(1.06, 2)->absolute());
}

TEST(TraceCost, ALevelThatIsNotThereIsLeftOutAndOtherErrorsEndTheRun) {
  const auto cost = measure_cost(3, [](Level level) -> Result<double> {
    if (level == Level::kOff) return Error{ErrorCode::kNotFound, "no such program", "off"};
    return 1.0;
  });
  ASSERT_TRUE(cost.ok());
  EXPECT_FALSE(cost->inflation(Level::kCoarse).has_value());
  EXPECT_FALSE(cost->absolute());
  EXPECT_EQ(cost->times[0].why, "off: no such program");
  EXPECT_EQ(cost->times[1].ns.size(), 3U);
  const auto failed = measure_cost(3, [](Level) -> Result<double> {
    return Error{ErrorCode::kIllegal, "it fails", ""};
  });
  EXPECT_FALSE(failed.ok());
}

// --- Perfetto's file

struct Written {
  Exported exported;
  std::size_t steps = 0;  // in the file
  double last_begin = 0;  // ns
};

Written written(const TraceBuilder& builder, std::uint64_t most_events) {
  const TempFolder folder;
  const std::string path = folder / "t.json";
  const auto bytes = builder.bytes();
  const auto exported = write_perfetto(parsed(bytes), path, most_events);
  EXPECT_TRUE(exported.ok());
  Written result{*exported};
  std::ifstream file(path);
  const auto document = nlohmann::json::parse(file);
  for (const auto& event : document["traceEvents"]) {
    if (event.value("cat", "") != "step") continue;
    ++result.steps;
    result.last_begin = std::max(result.last_begin, event["ts"].get<double>() * 1e3);
  }
  return result;
}

TEST(TracePerfetto, OfAGroupBeyondTheLimitTheFirstStepsAreWritten) {
  TraceBuilder builder = two_roles();
  steps(builder.track(0, 0), kProducer, 1000, 100, 2000, kSlot, 70);
  steps(builder.track(0, 1), kConsumer, 1000, 100, 2000, kFull, 0);
  const Written all = written(builder, 6000);
  EXPECT_EQ(all.steps, 4000U);
  EXPECT_EQ(all.exported.written, 6000U);
  EXPECT_EQ(all.exported.left_out, 0U);
  const Written some = written(builder, 3000);
  EXPECT_LE(some.exported.written, 3000U);
  EXPECT_GE(some.exported.written, 2900U);
  EXPECT_EQ(some.exported.written + some.exported.left_out, 6000U);
  EXPECT_EQ(some.steps, some.exported.written / 3 * 2);
  EXPECT_NEAR(some.last_begin, 1000 * 100, 5000);
}

TEST(TracePerfetto, StepsThatLieCloseTogetherLongBeforeTheLastOneAreNotAllLeftOut) {
  TraceBuilder builder = two_roles();
  steps(builder.track(0, 0), kProducer, 1000, 100, 2000, kSlot, 70);
  constexpr std::uint64_t kHourNs = 3600000000000;
  builder.track(0, 1).step(1000 + kHourNs, kConsumer, 0).end(2000 + kHourNs);
  const Written some = written(builder, 300);
  EXPECT_LE(some.exported.written, 300U);
  EXPECT_GE(some.exported.written, 150U);
  EXPECT_EQ(some.exported.written + some.exported.left_out, 4001U);
}

TEST(TracePerfetto, LaterGroupsBeyondTheLimitAreLeftOutWhole) {
  TraceBuilder builder = two_roles();
  for (const std::uint32_t group : {0U, 1U, 2U})
    steps(builder.track(group, 0), kProducer, 1000, 100, group == 1 ? 200 : 20, kSlot, 70);
  const Written some = written(builder, 100);
  EXPECT_EQ(some.exported.written, 80U);
  EXPECT_EQ(some.exported.left_out, 400U);
  EXPECT_EQ(some.steps, 40U);
}

}  // namespace
}  // namespace pinch::trace
