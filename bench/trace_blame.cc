// trace_blame [RUNS] [FACTOR]: a pipeline of three real threads, one of which works FACTOR times as long as the others;
// how often is it blamed? On a machine with other work, or fewer cores than threads, the answer is about the machine
// too. The same on simulated time is a test (tests/unit/trace_marks_test.cc).
#define PINCH_TRACE_LEVEL 1
#include <fmt/core.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pinch/trace.h"
#include "workbench/trace/analysis.h"

namespace {

using namespace pinch::trace;

constexpr int kStages = 3, kSteps = 150;
constexpr int kWork = 40000;  // dependent multiplications, about 0.08 ms

class Count {
 public:
  explicit Count(int count) : count_(count) {}
  void put() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_one();
  }
  void take(int what) {
    PINCH_TRACE_WAIT(what);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ > 0; });
    --count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_;
};

double work(int count) {
  double value = 1.0;
  for (int i = 0; i < count; ++i) {
    value *= 1.0000001;
    asm volatile("" : "+x"(value));
  }
  return value;
}

void run_pipeline(int slow, double factor) {
  struct Link {
    Count empty{2}, full{0};
  };
  std::vector<Link> links(kStages);
  std::vector<std::thread> threads;
  for (int stage = 0; stage < kStages; ++stage) {
    threads.emplace_back([&, stage] {
      PINCH_TRACE_SCOPE();
      for (int step = 0; step < kSteps; ++step) {
        PINCH_TRACE_STEP(stage, step);
        if (stage > 0) links[static_cast<std::size_t>(stage)].full.take(2 * stage);
        work(static_cast<int>(kWork * (stage == slow ? factor : 1)));
        if (stage > 0) links[static_cast<std::size_t>(stage)].empty.put();
        if (stage + 1 < kStages) {
          links[static_cast<std::size_t>(stage + 1)].empty.take(2 * stage + 1);
          links[static_cast<std::size_t>(stage + 1)].full.put();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 20;
  const double factor = argc > 2 ? std::atof(argv[2]) : 3;
  const std::string path = (std::filesystem::temp_directory_path() / "pinch_trace_blame").string();
  int blamed = 0, steady = 0;
  for (int run = 0; run < runs; ++run) {
    const int slow = run % kStages;
    {
      Session session(kLevel, "blame",
                      {{{"stage0"}, {"stage1"}, {"stage2"}},
                       {{"none"}, {"slot1", 1}, {"item1", 0}, {"slot2", 2}, {"item2", 1}},
                       {}},
                      path);
      run_pipeline(slow, factor);
    }
    const auto file = TraceFile::open(path);
    const auto report = file ? analyse(*file) : file.error();
    if (!report) {
      fmt::print(stderr, "{}\n", report.error().message());
      return 1;
    }
    blamed += report->critical_role == report->roles[static_cast<std::size_t>(slow)].name ? 1 : 0;
    steady += static_cast<int>(report->steady_groups);
  }
  std::filesystem::remove(path);
  fmt::print("{} of {} runs blamed the stage that was slower by {}; a steady state was found in {}\n", blamed, runs,
             factor, steady);
  return 0;
}
