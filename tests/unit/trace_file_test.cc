// The trace file, its events and its steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/unit/trace_support.h"
#include "workbench/trace/steps.h"

namespace pinch::trace {
namespace {

using test::TraceBuilder;
using testing::HasSubstr;
using testing::StartsWith;

// --- the file

TEST(TraceFile, IsReadBackAsWritten) {
  TraceBuilder builder = two_roles();
  builder.run_ns = {7, 9};
  std::strcpy(builder.header.program, "pipeline");
  builder.track(3, 1).step(1000, kProducer, 4).phase(1010, 1).wait(1030, kSlot, 5).end(1040);
  const auto bytes = builder.bytes();
  const TraceFile file = parsed(bytes);
  EXPECT_EQ(file.program(), "pipeline");
  EXPECT_EQ(file.level(), Level::kCoarse);
  EXPECT_EQ(file.roles()[1].name, "consumer");
  EXPECT_TRUE(file.roles()[1].matrix);
  EXPECT_EQ(file.waits()[1].from, 0);
  EXPECT_EQ(file.phases()[1], "store");
  EXPECT_EQ(file.run_ns(), (std::vector<std::uint64_t>{7, 9}));
  EXPECT_EQ(file.tracks()[0].group, 3U);
  StepReader reader(file, 0);
  const Step* step = reader.next();
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->number, 4U);
  EXPECT_EQ(step->end - step->begin, 40U);
  ASSERT_EQ(step->waits.size(), 1U);
  EXPECT_EQ(step->waits[0].begin, 25U);
  EXPECT_EQ(step->phases[0].begin, 10U);
  EXPECT_EQ(reader.next(), nullptr);
  EXPECT_TRUE(reader.ended());
}

TEST(TraceFile, RefusesEachBrokenFieldAtItsByte) {
  TraceBuilder builder = two_roles();
  builder.track(0, 0).step(1000, kProducer, 0).end(1040);
  const auto good = builder.bytes();
  const std::size_t names = sizeof(FileHeader), tracks = names + 6 * sizeof(NameEntry);
  const std::size_t block = tracks + sizeof(TrackEntry), event = block + sizeof(BlockHeader);
  struct Case {
    std::size_t offset;
    std::uint32_t value;
    std::size_t shown;
    const char* rule;
  };
  const Case cases[] = {
      {0, 0, 0, "magic"},
      {offsetof(FileHeader, version), 2, offsetof(FileHeader, version), "version"},
      {offsetof(FileHeader, level), 3, offsetof(FileHeader, level), "level"},
      {offsetof(FileHeader, clock_bits), 31, offsetof(FileHeader, clock_bits), "clock_bits"},
      {offsetof(FileHeader, roles), 5000, offsetof(FileHeader, roles), "count"},
      {offsetof(FileHeader, waits), 100, offsetof(FileHeader, roles), "count"},
      {offsetof(FileHeader, runs), 0x7fffffff, offsetof(FileHeader, runs), "count"},
      {offsetof(FileHeader, tracks), 0xffffffff, offsetof(FileHeader, tracks), "count"},
      {names, 0x000000ff, names, "name"},
      {names + offsetof(NameEntry, from), 0, names + offsetof(NameEntry, from), "from"},
      {names + 2 * sizeof(NameEntry) + offsetof(NameEntry, from), 2,
       names + 2 * sizeof(NameEntry) + offsetof(NameEntry, from), "from"},
      {block, 0, block, "block"},
      {block + offsetof(BlockHeader, track), 1, block + offsetof(BlockHeader, track), "block"},
      {block + offsetof(BlockHeader, first), 1, block + offsetof(BlockHeader, first), "block"},
      {block + offsetof(BlockHeader, count), 3, block + offsetof(BlockHeader, count), "count"},
      {event + offsetof(Event, name), 0x00010002, event + offsetof(Event, name), "event"},
      {event + offsetof(Event, name), 0x00090000, event + offsetof(Event, kind), "event"},
  };
  for (const Case& c : cases) {
    auto bytes = good;
    std::memcpy(bytes.data() + c.offset, &c.value, sizeof c.value);
    const auto file = TraceFile::parse(bytes, "t");
    ASSERT_FALSE(file.ok()) << c.offset;
    EXPECT_EQ(file.error().where, "t: byte " + std::to_string(c.shown)) << file.error().message();
    EXPECT_THAT(file.error().text, StartsWith(c.rule));
    EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
  }
}

TEST(TraceFile, RefusesEveryCutAndCountsAMissingBlock) {
  TraceBuilder builder = two_roles();
  auto& track = builder.track(0, 0).step(1000, kProducer, 0).step(1010, kProducer, 1).end(1040);
  track.split = 1;
  const auto whole = builder.bytes();
  const std::size_t last_block = whole.size() - sizeof(Event) - sizeof(BlockHeader);
  const std::size_t blocks = last_block - 2 * sizeof(Event) - sizeof(BlockHeader);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::span<const std::byte> cut(whole.data(), size);
    const auto file = TraceFile::parse(cut, "t");
    ASSERT_EQ(file.ok(), size == last_block || size == blocks) << size;
    if (!file.ok()) {
      EXPECT_THAT(file.error().where, StartsWith("t: byte "));
      continue;
    }
    EventReader reader(*file, 0);
    while (reader.next()) {
    }
    EXPECT_EQ(reader.lost(), size == blocks ? 3U : 1U);
  }
}

TEST(TraceFile, RefusesAnEventInTwoBlocks) {
  TraceBuilder builder = two_roles();
  builder.track(0, 0).step(1000, kProducer, 0).step(1010, kProducer, 1).end(1040);
  builder.tracks[0].split = 1;
  auto bytes = builder.bytes();
  const std::size_t later = sizeof(FileHeader) + 6 * sizeof(NameEntry) + sizeof(TrackEntry);
  const std::uint64_t first = 0;
  std::memcpy(bytes.data() + later + offsetof(BlockHeader, first), &first, sizeof first);
  const auto file = TraceFile::parse(bytes, "t");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().text, HasSubstr("two blocks"));
}

TEST(TraceFile, AWriterThatCannotWriteSaysSoAndLeavesNothing) {
  FileWriter writer("/nonexistent/folder/trace", {}, {}, {}, {});
  EXPECT_FALSE(writer.done());
  const TempFolder folder;
  std::filesystem::create_directory(folder / "name");
  FileWriter over_folder(folder / "name", {}, {}, {}, {});  // a device is refused alike
  EXPECT_FALSE(over_folder.done());
  EXPECT_THAT(folder.files(), testing::ElementsAre("name"));
}

// --- events and steps

TEST(TraceEvents, ComeInOrderFromBlocksOutOfOrder) {
  TraceBuilder builder = two_roles();
  steps(builder.track(0, 0), kProducer, 1000, 100, 50, kSlot, 40);
  const Analysis straight = analysed(builder);
  builder.tracks[0].split = 33;
  const Analysis shuffled = analysed(builder);
  EXPECT_EQ(shuffled.lost_events, 0U);
  EXPECT_EQ(shuffled.role("producer")->steps, 50U);
  EXPECT_EQ(shuffled.role("producer")->period_median, straight.role("producer")->period_median);
  EXPECT_EQ(shuffled.role("producer")->busy, straight.role("producer")->busy);
}

TEST(TraceEvents, AClockOf32BitsThatWrapsKeepsItsPeriods) {
  TraceBuilder builder = two_roles();
  builder.header.clock_bits = 32;
  const std::uint64_t begin = 0xfffff000;
  auto& track = builder.track(0, 0, begin, 1000);
  steps(track, kProducer, begin, 1000000, 9000, kSlot, 250000);  // wraps twice
  track.entry.end_ns = 1000 + 9000 * std::uint64_t{1000000};
  for (auto& event : track.events) event.ticks &= 0xffffffff;
  const Analysis report = analysed(builder);
  EXPECT_EQ(report.role("producer")->period_median, 1000000);
  EXPECT_EQ(report.role("producer")->period_p99, 1000000);
  EXPECT_NEAR(report.span_ns, 9e9, 1);
  EXPECT_EQ(report.backward_stamps, 0U);
  EXPECT_EQ(report.missed_wraps, 0U);
}

TEST(TraceEvents, AWrapThatNoStampShowsIsCounted) {
  TraceBuilder builder = two_roles();
  builder.header.clock_bits = 32;
  auto& track = builder.track(0, 0, 1000, 1000);
  track.step(1000, kProducer, 0).step(2000, kProducer, 1).end(3000);
  track.entry.end_ns = 1000 + 10 * std::uint64_t{1000000000};
  EXPECT_EQ(analysed(builder).missed_wraps, 1U);
}

TEST(TraceEvents, AClockThatRunsBackIsCountedAndStandsStill) {
  TraceBuilder builder = two_roles();
  builder.track(0, 0)
      .step(1000, kProducer, 0)
      .step(1500, kProducer, 1)
      .step(1400, kProducer, 2)
      .step(2000, kProducer, 3)
      .end(2500);
  const Analysis report = analysed(builder);
  EXPECT_EQ(report.backward_stamps, 1U);
  EXPECT_EQ(report.span_ns, 1500);
}

TEST(TraceEvents, OfAWarpAreInTheOrderOfTheirClocksHoweverTheyWereStored) {
  const auto what = [](EventKind kind, std::uint32_t name, std::uint32_t value) {
    return (static_cast<std::uint32_t>(kind) * kWarpNames + name) * kWarpValues + value;
  };
  const std::uint64_t begin = (std::uint64_t{5} << 32) - 100;  // the low word wraps soon
  const auto low = [&](std::int64_t after) {
    return static_cast<std::uint32_t>(begin + static_cast<std::uint64_t>(after));
  };
  // A wait within the step is stored before the step's own mark, on either side of the wrap.
  const std::vector<WarpEvent> stored = {{low(140), what(EventKind::kWait, 3, 30)},
                                         {low(90), what(EventKind::kStep, 31, kWarpValues - 1)},
                                         {low(2000000000), what(EventKind::kWait, 0, kWarpValues - 1)},
                                         {low(4000000000), what(EventKind::kEnd, 0, 0)},
                                         {0, 0},
                                         {low(4000000001), what(EventKind::kStep, 0, 0)}};
  const std::vector<Event> events = unpacked(stored, begin);
  ASSERT_EQ(events.size(), 4U);  // what follows one that nobody wrote is of an earlier launch
  const std::uint64_t after[] = {90, 140, 2000000000, 4000000000};
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].ticks - begin, after[i]);
  EXPECT_EQ(events[0].kind, static_cast<std::uint8_t>(EventKind::kStep));
  EXPECT_EQ(events[0].name, 31);
  EXPECT_EQ(events[0].value, kWarpValues - 1);
  EXPECT_EQ(events[1].name, 3);
  EXPECT_EQ(events[1].value, 30U);
  EXPECT_EQ(events[2].value, kAtLeast);
  EXPECT_EQ(events[3].kind, static_cast<std::uint8_t>(EventKind::kEnd));
}

TEST(TraceEvents, LostOnesAreCountedAndMakeNoPeriod) {
  TraceBuilder builder = two_roles();
  auto& track = builder.track(0, 0);
  steps(track, kProducer, 1000, 100, 60, kSlot, 0);
  // A hole of 20 steps in the middle, and the ring had overwritten 7 before the first.
  track.events.erase(track.events.begin() + 20, track.events.begin() + 40);
  const std::vector<Event> late(track.events.begin() + 20, track.events.end());
  track.events.resize(20);
  const TempFolder folder;
  TrackEntry entry = track.entry;
  entry.emitted = 7 + 61;
  {
    FileWriter writer(folder / "trace", builder.header, builder.names, {}, {entry});
    writer.block(0, 7, track.events.data(), 20);
    writer.block(0, 47, late.data(), late.size());
    ASSERT_TRUE(writer.done());
  }
  const auto file = TraceFile::open(folder / "trace");
  ASSERT_TRUE(file.ok());
  const auto report = analyse(*file);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->lost_events, 27U);
  EXPECT_EQ(report->role("producer")->steps, 40U);
  EXPECT_EQ(report->role("producer")->period_p99, 100);
}

TEST(TraceSteps, AWaitIsCutToItsStepAndCountedOnce) {
  TraceBuilder builder = two_roles();
  builder.track(0, 0)
      .step(1000, kProducer, 0)
      .step(1100, kProducer, 1)
      .wait(1150, kSlot, 100)
      .wait(1160, kFull, 40)
      .end(1200);
  const auto bytes = builder.bytes();
  const TraceFile file = parsed(bytes);
  StepReader reader(file, 0);
  reader.next();
  const Step* step = reader.next();
  ASSERT_EQ(step->waits.size(), 2U);
  EXPECT_EQ(step->waits[0].end - step->waits[0].begin, 50U);
  EXPECT_EQ(step->waits[1].end - step->waits[1].begin, 10U);
}

}  // namespace
}  // namespace pinch::trace
