#include "workbench/store/tune_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "workbench/store/binary_hash.h"
#include "workbench/store/location.h"

namespace pinch::store {
namespace {

class TuneStoreTest : public testing::Test {
 protected:
  TuneStoreTest() {
    std::string name = testing::TempDir() + "pinch_store_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ / "sub" / "pinch.sqlite";
  }
  ~TuneStoreTest() override { std::filesystem::remove_all(folder_); }

  TuneStore opened() {
    auto store = TuneStore::open(path_);
    EXPECT_TRUE(store.ok()) << store.error().message();
    return std::move(store).value();
  }

  std::filesystem::path folder_;
  std::string path_;
};

const TuneKey kKey = {"cpu 2 cores", "avx512bf16", "b1", "t1", "cold budget=1", "m1 n8 k32", "2", "gcc 12"};

measure::Sample sample(int round, double wall_ns) {
  return {round, measure::Protocol::kCold, 3, wall_ns, 2 * wall_ns, 3.25, round % 2 == 0};
}

Point point(const std::string& tactic, std::int64_t rank) {
  Point result;
  result.tactic = tactic;
  result.rank = rank;
  result.predicted = 12.5;
  result.unit = "ns";
  result.rel_l2 = 1e-3;
  result.threads = 2;
  return result;
}

void record(TuneStore& store, const TuneKey& key) {
  const auto run = store.begin(key);
  ASSERT_TRUE(run.ok()) << run.error().message();
  ASSERT_TRUE(store.add_point(*run, point("a", 0)).ok());
  Point wrong = point("b", 1);
  wrong.verdict = measure::Verdict::kWrong;
  wrong.why = "rel_l2 0.5";
  wrong.rel_l2.reset();
  ASSERT_TRUE(store.add_point(*run, wrong).ok());
  const std::vector<measure::Sample> samples = {sample(0, 100), sample(1, 101.5)};
  const std::vector<measure::Sample> twin = {sample(0, 99)};
  const std::vector<TuneStore::TacticSamples> batch = {{"a", false, samples}, {"a", true, twin}};
  ASSERT_TRUE(store.add_samples(*run, batch).ok());
  ASSERT_TRUE(store.finish(*run, R"({"stop":"noise"})").ok());
}

TEST_F(TuneStoreTest, ReadsBackWhatWasStored) {
  TuneStore store = opened();
  record(store, kKey);
  const auto found = store.find(kKey);
  ASSERT_TRUE(found.ok() && found->has_value());
  const auto& run = **found;
  EXPECT_EQ(run.details, R"({"stop":"noise"})");
  EXPECT_EQ(run.started_at.size(), 20U);
  ASSERT_EQ(run.points.size(), 2U);
  const Point& a = run.points[0];
  EXPECT_EQ(a.tactic, "a");
  EXPECT_EQ(a.predicted, 12.5);
  EXPECT_EQ(a.unit, "ns");
  EXPECT_EQ(a.rel_l2, 1e-3);
  EXPECT_EQ(a.threads, 2);
  ASSERT_EQ(a.samples.size(), 2U);
  EXPECT_EQ(a.samples[1].round, 1);
  EXPECT_EQ(a.samples[1].protocol, measure::Protocol::kCold);
  EXPECT_EQ(a.samples[1].calls, 3);
  EXPECT_EQ(a.samples[1].wall_ns, 101.5);
  EXPECT_EQ(a.samples[1].cpu_ns, 203);
  EXPECT_EQ(a.samples[1].clock_ghz, 3.25);
  EXPECT_TRUE(a.samples[0].accepted);
  EXPECT_FALSE(a.samples[1].accepted);
  ASSERT_EQ(a.twin.size(), 1U);
  EXPECT_EQ(a.twin[0].wall_ns, 99);
  EXPECT_EQ(run.points[1].verdict, measure::Verdict::kWrong);
  EXPECT_EQ(run.points[1].why, "rel_l2 0.5");
  EXPECT_FALSE(run.points[1].rel_l2);
}

TEST_F(TuneStoreTest, AnyFieldThatDiffersIsAMiss) {
  TuneStore store = opened();
  record(store, kKey);
  for (std::string TuneKey::*field : {&TuneKey::device, &TuneKey::isa, &TuneKey::binary, &TuneKey::tactics,
                                      &TuneKey::policy, &TuneKey::problem, &TuneKey::threads, &TuneKey::compiler}) {
    TuneKey other = kKey;
    other.*field += "x";
    const auto found = store.find(other);
    ASSERT_TRUE(found.ok());
    EXPECT_FALSE(found->has_value());
  }
  EXPECT_TRUE(store.find(kKey)->has_value());
}

TEST_F(TuneStoreTest, AnUnknownFieldIsAMissEvenWhereItIsStored) {
  TuneStore store = opened();
  TuneKey unknown = kKey;
  unknown.binary.clear();
  record(store, unknown);
  EXPECT_FALSE(store.find(unknown)->has_value());
}

TEST_F(TuneStoreTest, AnUnfinishedRunIsAMissAndItsRowsStay) {
  TuneStore store = opened();
  const auto run = store.begin(kKey);
  ASSERT_TRUE(store.add_point(*run, point("a", 0)).ok());
  EXPECT_FALSE(store.find(kKey)->has_value());
  TuneStore again = opened();
  EXPECT_EQ(again.database().query("SELECT tactic FROM point")->size(), 1U);
}

TEST_F(TuneStoreTest, TheNewestOfTwoRunsIsFound) {
  TuneStore store = opened();
  record(store, kKey);
  record(store, kKey);
  EXPECT_EQ((*store.find(kKey))->id, 2);
}

TEST_F(TuneStoreTest, TwoWritersLoseNoRow) {
  constexpr int kRuns = 40;
  const auto write = [&](const char* problem) {
    TuneStore store = opened();
    TuneKey key = kKey;
    key.problem = problem;
    for (int i = 0; i < kRuns; ++i) record(store, key);
  };
  std::thread first(write, "first");
  std::thread second(write, "second");
  first.join();
  second.join();
  TuneStore store = opened();
  const auto count = [&](const char* sql) { return std::get<std::int64_t>((*store.database().query(sql))[0][0]); };
  EXPECT_EQ(count("SELECT count(*) FROM run WHERE problem = 'first' AND finished_at IS NOT NULL"), kRuns);
  EXPECT_EQ(count("SELECT count(*) FROM run WHERE problem = 'second' AND finished_at IS NOT NULL"), kRuns);
  EXPECT_EQ(count("SELECT count(*) FROM point"), 2 * 2 * kRuns);
  EXPECT_EQ(count("SELECT count(*) FROM sample"), 2 * 3 * kRuns);
}

TEST_F(TuneStoreTest, AFullDiskIsAnErrorAndTheFileStaysReadable) {
  TuneStore store = opened();
  record(store, kKey);
  ASSERT_TRUE(store.database().execute("PRAGMA max_page_count = 1").ok());  // no page can be added any more
  const auto run = store.begin(kKey);
  Result<void> failed;
  if (run.ok()) {
    ASSERT_TRUE(store.add_point(*run, point("a", 0)).ok());
    const std::vector<measure::Sample> many(2000, sample(0, 1));
    const std::vector<TuneStore::TacticSamples> batch = {{"a", false, many}};
    failed = store.add_samples(*run, batch);
  } else {
    failed = run.error();
  }
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_THAT(failed.error().message(), testing::HasSubstr("full"));
  EXPECT_TRUE(opened().find(kKey)->has_value());
}

TEST_F(TuneStoreTest, AFileThatIsNoDatabaseIsRefusedAndLeftAlone) {
  path_ = folder_ / "notes.txt";
  const std::string notes(4096, 'x');
  std::ofstream(path_) << notes;
  const auto store = TuneStore::open(path_);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ErrorCode::kCorrupt);
  std::ifstream file(path_);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), notes);
}

TEST_F(TuneStoreTest, AnotherLayoutIsRefused) {
  ASSERT_TRUE(opened().database().execute("PRAGMA user_version = 99").ok());
  const auto store = TuneStore::open(path_);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(store.error().message(), testing::HasSubstr("layout 99"));
}

TEST_F(TuneStoreTest, AFolderThatCannotBeMadeIsAnError) {
  const auto store = TuneStore::open("/proc/pinch/pinch.sqlite");
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ErrorCode::kIo);
}

TEST(TextHash, IsFnv1a) {
  EXPECT_EQ(text_hash(""), "cbf29ce484222325");
  EXPECT_EQ(text_hash("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(text_hash("foobar"), "85944171f73967e8");
}

TEST(BinaryHash, IsStableWithinOneProgram) {
  EXPECT_EQ(binary_hash().size(), 16U);
  EXPECT_EQ(binary_hash(), binary_hash());
}

class DatabasePathTest : public testing::Test {
 protected:
  DatabasePathTest() {
    ::unsetenv("PINCH_DB");
    ::unsetenv("XDG_CACHE_HOME");
    ::setenv("HOME", "/h", 1);
  }
};

TEST_F(DatabasePathTest, TakesTheFirstThatIsSet) {
  EXPECT_EQ(*database_path(""), "/h/.cache/pinch/pinch.sqlite");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(*database_path(""), "/x/pinch/pinch.sqlite");
  ::setenv("PINCH_DB", "/p.sqlite", 1);
  EXPECT_EQ(*database_path(""), "/p.sqlite");
  EXPECT_EQ(*database_path("/asked"), "/asked");
}

TEST_F(DatabasePathTest, RefusesWhereThereIsNoPlace) {
  ::unsetenv("HOME");
  EXPECT_FALSE(database_path("").ok());
}

}  // namespace
}  // namespace pinch::store
