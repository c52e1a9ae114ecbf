#include "workbench/sweep/sweep_store.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/temp_folder.h"
#include "workbench/store/tune_store.h"

namespace pinch::sweep {
namespace {

StoredTrial trial(const std::string& point, int round) {
  StoredTrial stored{{"m=1", point, Role::kTwin, round}, {}};
  stored.trial.samples = {1.5, 0.1 + 0.2};
  stored.trial.err = "line 1\nline 2";
  stored.trial.outputs = {{"c", "abc"}};
  stored.trial.wall_s = 0.25;
  stored.trial.verdict = measure::Verdict::kOutOfMemory;
  return stored;
}

TEST(SweepStore, GivesBackWhatItWasGiven) {
  const TempFolder folder;
  auto store = SweepStore::open(folder / "s.sqlite");
  ASSERT_TRUE(store.ok()) << store.error().message();
  const auto id = store->begin("key", "subject", 7, false);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(store->add(*id, trial("tile=1", 3)).ok());
  const auto list = store->trials(*id);
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1U);
  const StoredTrial& back = list->front();
  EXPECT_EQ(back.key, trial("tile=1", 3).key);
  EXPECT_EQ(back.trial.samples, trial("", 0).trial.samples);
  EXPECT_EQ(back.trial.outputs, trial("", 0).trial.outputs);
  EXPECT_EQ(back.trial.verdict, measure::Verdict::kOutOfMemory);
  EXPECT_EQ(back.trial.device, "");
  EXPECT_EQ(back.trial.err, "line 1\nline 2");
  EXPECT_EQ(store->begin("key", "subject", 7, false).value(), *id);
  EXPECT_NE(store->begin("other", "subject", 7, false).value(), *id);
  ASSERT_TRUE(store->begin("key", "subject", 7, /*forget=*/true).ok());
  EXPECT_TRUE(store->trials(*id)->empty());
}

TEST(SweepStore, LosesNoRowOfConcurrentWriters) {
  const TempFolder folder;
  const std::string path = folder / "s.sqlite";
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      auto store = SweepStore::open(path);
      ASSERT_TRUE(store.ok()) << store.error().message();
      const auto id = store->begin(writer % 2 == 0 ? "even" : "odd", "subject", 1, false);
      ASSERT_TRUE(id.ok()) << id.error().message();
      for (int i = 0; i < 50; ++i) ASSERT_TRUE(store->add(*id, trial(fmt::format("p{}", writer), i)).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  auto store = SweepStore::open(path);
  ASSERT_TRUE(store.ok());
  for (const char* key : {"even", "odd"}) {
    EXPECT_EQ(store->trials(store->begin(key, "subject", 1, false).value())->size(), 100U);
  }
}

TEST(SweepStore, SharesItsFileWithTunedPicks) {
  const TempFolder folder;
  ASSERT_TRUE(SweepStore::open(folder / "s.sqlite").ok());
  ASSERT_TRUE(store::TuneStore::open(folder / "s.sqlite").ok());
  ASSERT_TRUE(SweepStore::open(folder / "s.sqlite").ok());
}

}  // namespace
}  // namespace pinch::sweep
