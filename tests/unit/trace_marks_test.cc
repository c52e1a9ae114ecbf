// The marks of pinch/trace.h on real threads whose time is simulated: a thread's clock moves by the work that it is
// told to do, and to the time of what it waited for, so that no figure depends on the machine or its load.
#include <cstdint>

namespace {
thread_local std::uint64_t now = 1;
std::uint64_t simulated_clock() {
  return now;
}
}  // namespace

#define PINCH_TRACE_LEVEL 1
#define PINCH_TRACE_CLOCK simulated_clock
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "pinch/trace.h"
#include "tests/support/temp_folder.h"
#include "workbench/trace/analysis.h"
#include "workbench/trace/steps.h"

namespace pinch::trace {
namespace {

constexpr int kStages = 4;
constexpr unsigned kSteps = 120;
constexpr std::size_t kSlots = 2;

// Times at which items, or the slots for them, became free to take.
class Times {
 public:
  void put(std::uint64_t time) {
    const std::lock_guard lock(mutex_);
    times_.push_back(time);
    changed_.notify_one();
  }
  std::uint64_t take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !times_.empty(); });
    const std::uint64_t time = times_.front();
    times_.pop_front();
    return time;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::uint64_t> times_;
};

void take(Times& times, int wait) {
  PINCH_TRACE_WAIT(wait);
  now = std::max(now, times.take());
}

// Stages 0 to 3 hand items on through two slots each. Stage `slow` works `factor` times as long as the others.
void run_pipeline(unsigned seed, int slow, double factor) {
  std::vector<Times> items(kStages), slots(kStages);
  for (Times& free : slots) {
    for (std::size_t s = 0; s < kSlots; ++s) free.put(1);
  }
  std::vector<std::thread> threads;
  for (int stage = 0; stage < kStages; ++stage) {
    threads.emplace_back([&, stage] {
      now = 1;
      std::mt19937 random(seed * kStages + static_cast<unsigned>(stage));
      std::uniform_real_distribution<double> work(700, 1300);
      PINCH_TRACE_SCOPE();
      for (unsigned step = 0; step < kSteps; ++step) {
        PINCH_TRACE_STEP(stage, step);
        if (stage > 0) take(items[static_cast<std::size_t>(stage)], 2 * stage);
        now += static_cast<std::uint64_t>(work(random) * (stage == slow ? factor : 1));
        if (stage > 0) slots[static_cast<std::size_t>(stage)].put(now);
        if (stage + 1 < kStages) {
          take(slots[static_cast<std::size_t>(stage + 1)], 2 * stage + 1);
          items[static_cast<std::size_t>(stage + 1)].put(now);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Names stage_names() {
  return {{{"stage0"}, {"stage1"}, {"stage2"}, {"stage3"}},
          {{"none"}, {"slot1", 1}, {"item1", 0}, {"slot2", 2}, {"item2", 1}, {"slot3", 3}, {"item3", 2}},
          {}};
}

Session open_session(const std::string& path, std::size_t events = 4096) {
  return Session(kLevel, "pipeline", stage_names(), path, events, simulated_clock);
}

Analysis analysed(const std::string& path) {
  const auto file = TraceFile::open(path);
  EXPECT_TRUE(file.ok()) << file.error().message();
  auto report = analyse(*file);
  EXPECT_TRUE(report.ok()) << report.error().message();
  return *report;
}

TEST(TraceMarks, AStageThatIsSlowByThreeTenthsIsBlamed) {
  const TempFolder folder;
  int blamed = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const int slow = static_cast<int>(seed) % kStages;
    {
      Session session = open_session(folder / "trace");
      run_pipeline(seed, slow, 1.3);
    }
    const Analysis report = analysed(folder / "trace");
    EXPECT_EQ(report.lost_events, 0U);
    EXPECT_EQ(report.roles[0].steps, kSteps);
    EXPECT_EQ(report.steady_groups, 1U);
    EXPECT_GT(report.critical_margin, 0.1) << seed;
    blamed += report.critical_role == report.roles[static_cast<std::size_t>(slow)].name ? 1 : 0;
  }
  EXPECT_GE(blamed, 19);
}

TEST(TraceMarks, AmongStagesThatAreAlikeNoneStandsOut) {
  const TempFolder folder;
  {
    Session session = open_session(folder / "trace");
    run_pipeline(5, -1, 1);
  }
  EXPECT_LT(analysed(folder / "trace").critical_margin, 0.05);
}

TEST(TraceMarks, TheSameWorkGivesTheSameFigures) {
  const TempFolder folder;
  double period = 0;
  for (int run = 0; run < 2; ++run) {
    {
      Session session = open_session(folder / "trace");
      run_pipeline(7, 2, 2);
    }
    const Analysis report = analysed(folder / "trace");
    EXPECT_EQ(report.critical_role, "stage2");
    EXPECT_NEAR(report.roles[2].period_median, 2000, 300);
    if (run == 1) {
      EXPECT_EQ(report.roles[2].period_median, period);
    }
    period = report.roles[2].period_median;
  }
}

TEST(TraceMarks, AFullRingKeepsTheLastEventsAndCountsTheRest) {
  const TempFolder folder;
  {
    Session session = open_session(folder / "trace", 32);
    now = 1;
    for (unsigned step = 0; step < 100; ++step, now += 10) PINCH_TRACE_STEP(0, step);
  }
  const auto file = TraceFile::open(folder / "trace");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->events(), 32U);
  StepReader reader(*file, 0);
  EXPECT_EQ(reader.next()->number, 68U);
  EXPECT_EQ(analysed(folder / "trace").lost_events, 68U);
}

TEST(TraceMarks, AWaitThatIsTooLongForOneEventIsSeveral) {
  const TempFolder folder;
  {
    Session session = open_session(folder / "trace");
    now = 1;
    PINCH_TRACE_SCOPE();
    PINCH_TRACE_STEP(0, 0);
    {
      PINCH_TRACE_WAIT(1);
      now += 10000000000;
    }
  }
  const auto file = TraceFile::open(folder / "trace");
  ASSERT_TRUE(file.ok());
  StepReader reader(*file, 0);
  EXPECT_EQ(reader.next()->waited(), 10000000000U);
}

TEST(TraceMarks, NothingIsRecordedWithoutAFile) {
  Session session = open_session("");
  PINCH_TRACE_STEP(0, 0);
  EXPECT_EQ(ring(), nullptr);
  EXPECT_TRUE(session.finish());
}

TEST(TraceMarks, ALevelThatIsOffWritesTheTimesAlone) {
  const TempFolder folder;
  {
    Session session(Level::kOff, "pipeline", stage_names(), folder / "trace");
    const auto timed = session.run();
    EXPECT_EQ(ring(), nullptr);
  }
  const auto file = TraceFile::open(folder / "trace");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->level(), Level::kOff);
  EXPECT_EQ(file->run_ns().size(), 1U);
  EXPECT_TRUE(file->tracks().empty());
}

TEST(TraceMarks, ASweepIsToldThatTheRunIsInstrumented) {
  const TempFolder folder;
  ::setenv("PINCH_SWEEP", "token", 1);
  ::setenv("PINCH_OUTPUTS", folder.path().c_str(), 1);
  Session off(Level::kOff, "pipeline", {}, "");
  EXPECT_TRUE(folder.files().empty());
  Session coarse(Level::kCoarse, "pipeline", {}, "");
  EXPECT_THAT(folder.files(), testing::ElementsAre("pinch_instrumented"));
  ::unsetenv("PINCH_SWEEP");
  ::unsetenv("PINCH_OUTPUTS");
}

TEST(TraceMarks, AFileThatCannotBeWrittenIsSaid) {
  Session session = open_session("/nonexistent/folder/trace");
  EXPECT_FALSE(session.finish());
}

}  // namespace
}  // namespace pinch::trace
