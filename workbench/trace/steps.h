// A track's events as steps: which role did what, from when to when, and what it waited for meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workbench/trace/reader.h"

namespace pinch::trace {

struct WaitSpan {
  std::uint32_t wait = 0;
  std::uint64_t begin = 0, end = 0;  ///< ticks, as EventReader::Item::ticks
};

struct PhaseStart {
  std::uint32_t phase = 0;
  std::uint64_t begin = 0;
};

struct Step {
  std::uint32_t role = 0;
  std::uint32_t number = 0;
  std::uint64_t begin = 0, end = 0;
  /// The step before it is unknown: events were lost, or this is the track's first. Its distance to an earlier step of
  /// the role is no period.
  bool after_gap = false;
  bool complete = true;             ///< false: its end was lost or never came; `end` is the last that was seen of it
  std::vector<WaitSpan> waits;      ///< at most kMaxParts, without overlap, ascending
  std::vector<PhaseStart> phases;   ///< at most kMaxParts
  std::uint64_t parts_dropped = 0;  ///< waits and phases beyond those

  static constexpr std::size_t kMaxParts = 4096;

  [[nodiscard]] std::uint64_t waited() const {
    std::uint64_t sum = 0;
    for (const WaitSpan& wait : waits) sum += wait.end - wait.begin;
    return sum;
  }
};

/// Reads one track's steps in order. A wait or phase outside any step belongs to none and is counted.
class StepReader {
 public:
  StepReader(const TraceFile& file, std::size_t track);

  /// The next step; valid until the next call. Null when the track ends.
  const Step* next();

  [[nodiscard]] const EventReader& events() const { return events_; }
  [[nodiscard]] std::uint64_t strays() const { return strays_; }  ///< waits and phases outside steps
  [[nodiscard]] bool ended() const { return ended_; }             ///< the track's last step came to its end
  [[nodiscard]] std::uint64_t last_ticks() const { return last_ticks_; }

 private:
  void add_wait(const EventReader::Item& item);

  EventReader events_;
  std::optional<EventReader::Item> ahead_;
  Step step_;
  std::uint64_t strays_ = 0, last_ticks_ = 0;
  bool ended_ = true, started_ = false;
};

/// Maps a track's ticks to ns since the file's earliest anchor, by the track's two anchors; by the nominal rate where
/// it has one anchor or the two are too near each other to give a rate.
class TrackClock {
 public:
  TrackClock(const TraceFile& file, std::size_t track, std::uint64_t origin_ns);
  [[nodiscard]] double ns(std::uint64_t ticks) const { return begin_ns_ + static_cast<double>(ticks) * ns_per_tick_; }
  [[nodiscard]] std::uint64_t ticks(double ns) const;
  [[nodiscard]] double ns_per_tick() const { return ns_per_tick_; }

 private:
  double begin_ns_ = 0, ns_per_tick_ = 1;
};

/// The earliest anchor of the file, in ns of its wall clock.
std::uint64_t origin_ns(const TraceFile& file);

}  // namespace pinch::trace
