// Traces made by hand: streams of stamps whose periods, waits and faults are known.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "pinch/trace_file.h"
#include "tests/support/temp_folder.h"

namespace pinch::test {

struct TraceTrack {
  trace::TrackEntry entry;
  std::vector<trace::Event> events;
  std::uint64_t first = 0;  ///< events before the first one that is kept
  std::uint64_t split = 0;  ///< written as two blocks, the later one first, from this event on; 0: one block

  TraceTrack& step(std::uint64_t ticks, unsigned role, unsigned number) {
    return add(ticks, trace::EventKind::kStep, role, number);
  }
  TraceTrack& wait(std::uint64_t end, unsigned name, std::uint64_t length) {
    return add(end, trace::EventKind::kWait, name, static_cast<unsigned>(length));
  }
  TraceTrack& phase(std::uint64_t ticks, unsigned name) { return add(ticks, trace::EventKind::kPhase, name, 0); }
  TraceTrack& end(std::uint64_t ticks) {
    entry.end_ticks = ticks;
    entry.end_ns = entry.begin_ns + (ticks - entry.begin_ticks);
    return add(ticks, trace::EventKind::kEnd, 0, 0);
  }

 private:
  TraceTrack& add(std::uint64_t ticks, trace::EventKind kind, unsigned name, unsigned value) {
    events.push_back({ticks, value, static_cast<std::uint16_t>(name), static_cast<std::uint8_t>(kind), 0});
    return *this;
  }
};

struct TraceBuilder {
  trace::FileHeader header;
  trace::Names names;
  std::vector<std::uint64_t> run_ns;
  std::deque<TraceTrack> tracks;  // track() hands out references

  TraceBuilder() {
    header.level = 1;
    header.clock_bits = 64;
    header.clock_hz = 1000000000;  // a tick is a ns
  }

  /// A track that begins at tick and ns `begin`.
  TraceTrack& track(std::uint32_t group, std::uint32_t index, std::uint64_t begin_ticks = 1000,
                    std::uint64_t begin_ns = 1000) {
    TraceTrack track;
    track.entry.group = group;
    track.entry.index = index;
    track.entry.begin_ticks = begin_ticks;
    track.entry.begin_ns = begin_ns;
    tracks.push_back(track);
    return tracks.back();
  }

  void write(const std::string& path) const {
    std::vector<trace::TrackEntry> entries;
    for (const TraceTrack& track : tracks) {
      entries.push_back(track.entry);
      if (entries.back().emitted == 0) entries.back().emitted = track.first + track.events.size();
    }
    trace::FileWriter writer(path, header, names, run_ns, entries);
    for (std::uint32_t t = 0; t < tracks.size(); ++t) {
      const TraceTrack& track = tracks[t];
      const std::size_t split = track.split;
      writer.block(t, track.first + split, track.events.data() + split, track.events.size() - split);
      writer.block(t, track.first, track.events.data(), split);
    }
    ASSERT_TRUE(writer.done());
  }

  [[nodiscard]] std::vector<std::byte> bytes() const {
    const TempFolder folder;
    const std::string path = folder / "trace";
    write(path);
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> chars{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::vector<std::byte> bytes(chars.size());
    std::transform(chars.begin(), chars.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
    return bytes;
  }
};

}  // namespace pinch::test
