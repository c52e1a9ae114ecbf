#include "workbench/sweep/sweep_store.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "tests/support/temp_folder.h"
#include "workbench/store/tune_store.h"

namespace pinch::sweep {
namespace {

StoredTrial trial(const std::string& point, int round, const std::string& device = {}) {
  StoredTrial stored{{"m=1", point, Role::kTwin, round, device}, {}};
  stored.trial.samples = {1.5, 0.1 + 0.2};
  stored.trial.err = "line 1\nline 2";
  stored.trial.outputs = {{"c", "abc"}};
  stored.trial.wall_s = 0.25;
  stored.trial.verdict = measure::Verdict::kOutOfMemory;
  return stored;
}

SweepStart start(const std::string& key, bool forget = false) {
  return {key, "subject", 7, "{}", forget};
}

std::size_t count(const std::string& path, const std::string& key, bool forget = false) {
  auto store = SweepStore::open(path);
  EXPECT_TRUE(store.ok() && store->begin(start(key, forget)).ok());
  return store->trials()->size();
}

TEST(SweepStore, GivesBackWhatItWasGiven) {
  const TempFolder folder;
  auto store = SweepStore::open(folder / "s.sqlite");
  ASSERT_TRUE(store.ok()) << store.error().message();
  ASSERT_TRUE(store->begin(start("key")).ok());
  ASSERT_TRUE(store->add(trial("tile=1", 3)).ok());
  ASSERT_TRUE(store->add(trial("tile=1", 3, "1")).ok()) << "the same on another device is another trial";
  const auto list = store->trials();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 2U);
  const StoredTrial& back = list->front();
  EXPECT_EQ(back.key, trial("tile=1", 3).key);
  EXPECT_EQ(list->back().key, trial("tile=1", 3, "1").key);
  EXPECT_EQ(back.trial.samples, trial("", 0).trial.samples);
  EXPECT_EQ(back.trial.outputs, trial("", 0).trial.outputs);
  EXPECT_EQ(back.trial.verdict, measure::Verdict::kOutOfMemory);
  EXPECT_EQ(back.trial.err, "line 1\nline 2");
  ASSERT_TRUE(store->leave().ok());
  EXPECT_EQ(count(folder / "s.sqlite", "key"), 2U);
  EXPECT_EQ(count(folder / "s.sqlite", "other"), 0U);
  EXPECT_EQ(count(folder / "s.sqlite", "key", /*forget=*/true), 0U);
}

TEST(SweepStore, EachRowRefersToTheStartThatMadeIt) {
  const TempFolder folder;
  for (const char* environment : {"{\"driver\": 1}", "{\"driver\": 2}"}) {
    auto store = SweepStore::open(folder / "s.sqlite");
    ASSERT_TRUE(store->begin({"key", "subject", 7, environment, false}).ok());
    ASSERT_TRUE(store->add(trial("tile=1", environment[11])).ok());
  }
  auto database = store::Database::open(folder / "s.sqlite");
  const auto rows = database->query(
      "SELECT environment, pid FROM trial JOIN sweep_start ON trial.start = sweep_start.id ORDER BY trial.rowid");
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ(std::get<std::string>((*rows)[0][0]), "{\"driver\": 1}");
  EXPECT_EQ(std::get<std::string>((*rows)[1][0]), "{\"driver\": 2}");
}

TEST(SweepStore, LosesNoRowOfConcurrentWriters) {
  const TempFolder folder;
  const std::string path = folder / "s.sqlite";
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      auto store = SweepStore::open(path);
      ASSERT_TRUE(store.ok()) << store.error().message();
      // Two of one sweep at once, as only threads of one process can be.
      const auto begun = store->begin(start(writer % 2 == 0 ? "even" : "odd"));
      ASSERT_TRUE(begun.ok()) << begun.error().message();
      for (int i = 0; i < 50; ++i) ASSERT_TRUE(store->add(trial(fmt::format("p{}", writer), i)).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  for (const char* key : {"even", "odd"}) EXPECT_EQ(count(path, key), 100U);
}

// A child process has the sweep until it is killed.
TEST(SweepStore, OneProcessAtATimeRunsASweep) {
  const TempFolder folder;
  const std::string path = folder / "s.sqlite";
  std::array<int, 2> ready;
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = SweepStore::open(path);
    const bool begun = store.ok() && store->begin(start("key")).ok();
    static_cast<void>(::write(ready[1], begun ? "y" : "n", 1));
    for (;;) ::pause();
  }
  char said = 'n';
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  ASSERT_EQ(said, 'y');
  auto store = SweepStore::open(path);
  ASSERT_TRUE(store.ok()) << store.error().message();
  int holder = 0;
  const auto refused = store->begin(start("key"), [&](int pid) {
    holder = pid;
    return false;
  });
  EXPECT_EQ(refused.error().code, ErrorCode::kInterrupted);
  EXPECT_EQ(holder, child);
  EXPECT_TRUE(SweepStore::open(path)->begin(start("other")).ok()) << "another sweep is free";
  const auto begun = store->begin(start("key"), [&](int pid) { return ::kill(pid, SIGKILL) == 0; });
  EXPECT_TRUE(begun.ok()) << "a killed process has nothing any more";
  ::waitpid(child, nullptr, 0);
}

TEST(Flusher, TellsWhatTheDiskRefuses) {
  const TempFolder folder;
  EXPECT_EQ(store::Flusher::open(folder / "absent").error().code, ErrorCode::kNotFound);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);  // which no fdatasync takes
  const auto flusher = store::Flusher::open(folder / "pipe");
  ASSERT_TRUE(flusher.ok());
  EXPECT_TRUE((*flusher)->request().ok());
  EXPECT_THAT((*flusher)->wait().error().message(), testing::HasSubstr("cannot be flushed to the disk"));
  EXPECT_FALSE((*flusher)->request().ok()) << "and goes on telling it";
}

TEST(SweepStore, SharesItsFileWithTunedPicks) {
  const TempFolder folder;
  ASSERT_TRUE(SweepStore::open(folder / "s.sqlite").ok());
  ASSERT_TRUE(store::TuneStore::open(folder / "s.sqlite").ok());
  ASSERT_TRUE(SweepStore::open(folder / "s.sqlite").ok());
}

}  // namespace
}  // namespace pinch::sweep
