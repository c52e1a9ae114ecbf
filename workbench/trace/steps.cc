#include "workbench/trace/steps.h"

#include <algorithm>
#include <cmath>

namespace pinch::trace {

StepReader::StepReader(const TraceFile& file, std::size_t track) : events_(file, track), ahead_(events_.next()) {}

void StepReader::add_wait(const EventReader::Item& item) {
  if (step_.waits.size() == Step::kMaxParts) {
    ++step_.parts_dropped;
    return;
  }
  // A wait that began before the step, or before the last wait ended, is cut: a tick is counted once.
  const std::uint64_t floor = step_.waits.empty() ? step_.begin : step_.waits.back().end;
  const std::uint64_t begin = item.ticks > item.event.value ? item.ticks - item.event.value : 0;
  step_.waits.push_back({item.event.name, std::max(begin, floor), std::max(item.ticks, floor)});
}

const Step* StepReader::next() {
  bool gap = !started_;
  for (; ahead_; ahead_ = events_.next()) {  // to the beginning of a step
    gap = gap || ahead_->after_gap;
    last_ticks_ = ahead_->ticks;
    const auto kind = static_cast<EventKind>(ahead_->event.kind);
    if (kind == EventKind::kStep) break;
    if (kind != EventKind::kEnd) ++strays_;
  }
  if (!ahead_) return nullptr;
  started_ = true;
  step_.role = ahead_->event.name;
  step_.number = ahead_->event.value;
  step_.begin = step_.end = ahead_->ticks;
  step_.after_gap = gap;
  step_.complete = false;
  step_.waits.clear();
  step_.phases.clear();
  step_.parts_dropped = 0;
  ended_ = false;
  while ((ahead_ = events_.next())) {
    if (ahead_->after_gap) return &step_;  // what ended it may be among the lost
    last_ticks_ = step_.end = ahead_->ticks;
    const auto kind = static_cast<EventKind>(ahead_->event.kind);
    if (kind == EventKind::kStep || kind == EventKind::kEnd) {
      step_.complete = ended_ = true;
      return &step_;
    }
    if (kind == EventKind::kWait) {
      add_wait(*ahead_);
    } else if (step_.phases.size() < Step::kMaxParts) {
      step_.phases.push_back({ahead_->event.name, ahead_->ticks});
    } else {
      ++step_.parts_dropped;
    }
  }
  return &step_;
}

std::uint64_t origin_ns(const TraceFile& file) {
  std::uint64_t first = 0;
  for (const TrackEntry& track : file.tracks()) {
    if (track.begin_ns != 0 && (first == 0 || track.begin_ns < first)) first = track.begin_ns;
  }
  return first;
}

TrackClock::TrackClock(const TraceFile& file, std::size_t track, std::uint64_t origin_ns) {
  const TrackEntry& entry = file.tracks()[track];
  if (entry.begin_ns >= origin_ns) begin_ns_ = static_cast<double>(entry.begin_ns - origin_ns);
  // A GPU's wall clock advances in steps of 32 ns to 1 us: a span of 20 us gives the rate to 5% at worst.
  constexpr std::uint64_t kLeastSpanNs = 20000;
  const double nominal = file.header().clock_hz > 0 ? 1e9 / static_cast<double>(file.header().clock_hz) : 1;
  const std::uint64_t ticks = EventReader(file, track).span_ticks();
  const bool spans = entry.end_ns > entry.begin_ns && ticks > 0;
  // A clock that wraps may have wrapped more than once between the anchors.
  const bool measured = spans && (file.header().clock_hz == 0 ||
                                  (file.header().clock_bits == 64 && entry.end_ns - entry.begin_ns >= kLeastSpanNs));
  ns_per_tick_ = measured ? static_cast<double>(entry.end_ns - entry.begin_ns) / static_cast<double>(ticks) : nominal;
}

std::uint64_t TrackClock::ticks(double ns) const {
  constexpr double kMost = 9e18;  // any more does not fit, and no clock runs that long
  const double ticks = std::clamp((ns - begin_ns_) / ns_per_tick_, 0.0, kMost);
  return static_cast<std::uint64_t>(std::llround(ticks));
}

}  // namespace pinch::trace
