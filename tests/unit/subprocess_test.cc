// Each planted way of going wrong is told apart, and nothing of it survives.
#include "src/core/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include "tests/support/temp_folder.h"

namespace pinch {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

Command faults(std::initializer_list<std::string> arguments) {
  Command command;
  command.argv = {PINCH_FAULTS};
  command.argv.insert(command.argv.end(), arguments);
  command.timeout_s = 20;
  return command;
}

Finished finished(const Command& command) {
  auto result = run(command);
  EXPECT_TRUE(result.ok()) << result.error().message();
  return result.ok() ? *result : Finished{};
}

// Marks a run's processes, to count the ones that are left.
Command marked(Command command, const std::string& mark) {
  command.environment.emplace_back("PINCH_TEST_MARK", mark);
  return command;
}

TEST(Subprocess, KeepsStdoutAndExitCode) {
  const auto result = finished(faults({"ok"}));
  EXPECT_TRUE(result.succeeded());
  EXPECT_EQ(result.out, "{\"ms\": 1.5}\n");
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_GT(result.wall_s, 0);
  EXPECT_EQ(finished(faults({"exit", "7"})).code, 7);
}

TEST(Subprocess, TellsSignalsApart) {
  const auto segfault = finished(faults({"segfault"}));
  EXPECT_EQ(segfault.ending, Ending::kSignalled);
  EXPECT_EQ(segfault.signal, SIGSEGV);
  EXPECT_EQ(segfault.describe(), "killed by SIGSEGV");
  EXPECT_THAT(segfault.err, HasSubstr("about to write"));
  EXPECT_EQ(finished(faults({"abort"})).describe(), "killed by SIGABRT");
}

TEST(Subprocess, EndsALoopThatMasksSignalsAtTheDeadline) {
  auto command = marked(faults({"hang"}), "hang");
  command.timeout_s = 0.3;
  const auto result = finished(command);
  EXPECT_EQ(result.ending, Ending::kTimedOut);
  EXPECT_GE(result.wall_s, 0.3);
  EXPECT_EQ(kill_by_environment("PINCH_TEST_MARK", "hang"), 0);
}

bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) != -1;
}

TEST(Subprocess, KillsGrandchildrenInAndOutOfTheSession) {
  const auto result = finished(marked(faults({"grandchildren"}), "grandchildren"));
  EXPECT_TRUE(result.succeeded());
  EXPECT_GE(result.left_behind, 1);
  EXPECT_EQ(kill_by_environment("PINCH_TEST_MARK", "grandchildren"), 0);
  EXPECT_FALSE(has_children()) << "also the one that dropped its environment";
}

TEST(Subprocess, KillsAForkBombWithTheDeadline) {
  auto command = marked(faults({"bomb", "64"}), "bomb");
  command.timeout_s = 0.5;
  EXPECT_EQ(finished(command).ending, Ending::kTimedOut);
  EXPECT_EQ(kill_by_environment("PINCH_TEST_MARK", "bomb"), 0);
}

TEST(Subprocess, FindsWhatAnotherCallerLeft) {
  auto command = marked(faults({"hang"}), "left.7");
  std::thread other([&] { EXPECT_EQ(finished(command).signal, SIGKILL); });
  int killed = 0;
  for (int tries = 0; killed == 0 && tries < 6000; ++tries) {
    ::usleep(10'000);
    killed = kill_by_environment("PINCH_TEST_MARK", "left.");
  }
  other.join();
  EXPECT_EQ(killed, 1);
}

// malloc's null that is written to is a crash like any other: only the peak tells, and only above this process's own.
TEST(Subprocess, TellsOutOfMemoryFromACrash) {
  rusage own = {};
  ::getrusage(RUSAGE_SELF, &own);
  const bool peak_tells = own.ru_maxrss < 200 << 10;  // a sanitizer's shadow can be larger
  for (const char* kind : {"allocate", "allocate_unchecked"}) {
    if (kind == std::string("allocate_unchecked") && !peak_tells) continue;
    auto command = faults({kind, "4096"});
    command.memory_bytes = 256 << 20;
    const auto result = finished(command);
    EXPECT_EQ(result.ending, Ending::kOutOfMemory) << kind << ": " << result.describe();
    if (peak_tells) {
      EXPECT_LT(result.peak_bytes, 300U << 20);
    }
  }
  auto within = faults({"allocate", "64"});
  within.memory_bytes = 256 << 20;
  EXPECT_TRUE(finished(within).succeeded());
}

TEST(Subprocess, CountsTheMemoryOfTheWholeTree) {
  for (const char* kind : {"allocate_in_children", "allocate_in_sessions"}) {
    auto command = marked(faults({kind, "100"}), "tree");
    command.memory_bytes = 256 << 20;
    command.timeout_s = 60;
    EXPECT_EQ(finished(command).ending, Ending::kOutOfMemory) << kind;
    EXPECT_EQ(kill_by_environment("PINCH_TEST_MARK", "tree"), 0) << kind;
  }
}

TEST(Subprocess, ReadsAFloodAndKeepsItsEnd) {
  auto command = faults({"flood", "64"});
  command.stdout_kept = 4096;
  const auto result = finished(command);
  EXPECT_TRUE(result.succeeded()) << result.describe();
  EXPECT_EQ(result.stdout_bytes, (64U << 20) + 13);
  EXPECT_EQ(result.out.size(), 4096U);
  EXPECT_THAT(result.out, EndsWith("\n{\"ms\": 1.5}\n"));
}

TEST(Subprocess, KeepsAllThatItIsAskedToKeep) {
  auto command = faults({"flood", "1"});
  command.stdout_kept = std::numeric_limits<std::size_t>::max();
  const auto result = finished(command);
  EXPECT_EQ(result.stdout_bytes, (1U << 20) + 13);
  EXPECT_EQ(result.out.size(), result.stdout_bytes);
}

TEST(Subprocess, AFloodDoesNotHoldUpTheDeadline) {
  auto command = faults({"endless_flood"});
  command.timeout_s = 0.3;
  const auto result = finished(command);
  EXPECT_EQ(result.ending, Ending::kTimedOut);
}

TEST(Subprocess, KeepsTheLastFourKibOfStderr) {
  const auto result = finished(faults({"chatter"}));
  EXPECT_EQ(result.err.size(), 4096U);
  EXPECT_THAT(result.err, EndsWith("line 999\n"));
}

TEST(Subprocess, StopsWhenAsked) {
  std::atomic<int> asked = 0;
  const auto result = run(faults({"hang"}), [&] { return ++asked > 2; });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->ending, Ending::kStopped);
}

TEST(Subprocess, NamesWhatCannotBeStarted) {
  Command command;
  EXPECT_EQ(run(command).error().code, ErrorCode::kInvalidArgument);
  command.argv = {"/no/such/program"};
  const auto absent = run(command);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(absent.error().message(), HasSubstr("/no/such/program"));
  command.argv = {"/etc/passwd"};
  EXPECT_EQ(run(command).error().code, ErrorCode::kIo);
  command.argv = {"true"};
  command.folder = "/no/such/folder";
  EXPECT_THAT(run(command).error().message(), HasSubstr("/no/such/folder"));
}

TEST(Subprocess, GivesFolderEnvironmentAndCpus) {
  const TempFolder folder;
  Command command;
  command.argv = {"sh", "-c", "pwd; echo $WORD; grep Cpus_allowed_list /proc/self/status"};
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) ++cpu;
  command.folder = folder.path();
  command.environment = {{"WORD", "said"}};
  command.cpus = {cpu};
  EXPECT_EQ(finished(command).out, folder.path() + "\nsaid\nCpus_allowed_list:\t" + std::to_string(cpu) + "\n");
  command.cpus = {1000};
  EXPECT_THAT(run(command).error().message(), HasSubstr("1000"));
}

TEST(Subprocess, RunsOfSeveralThreadsLeaveEachOtherAlone) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int repeat = 0; repeat < 10; ++repeat) EXPECT_TRUE(finished(faults({"grandchildren"})).succeeded());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(has_children());
}

TEST(Subprocess, TakesNoProcessOfAnotherThreadForOneLeftBehind) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([] {
      for (int repeat = 0; repeat < 100; ++repeat) EXPECT_EQ(finished(faults({"ok"})).left_behind, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace pinch
