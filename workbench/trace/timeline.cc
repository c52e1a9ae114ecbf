#include "workbench/trace/timeline.h"

#include <fmt/core.h>

#include <algorithm>

#include "workbench/trace/steps.h"

namespace pinch::trace {
namespace {

constexpr std::size_t kMostSpans = 4000;

// The first step of the role in the window at or after a time; that time where there is none.
double first_step_ns(const TraceFile& file, const Window& window, const std::string& role, double from_ns) {
  for (const std::size_t track : window.tracks) {
    const TrackClock clock(file, track, origin_ns(file));
    StepReader reader(file, track);
    while (const Step* step = reader.next()) {
      if (file.roles()[step->role].name == role && clock.ns(step->begin) >= from_ns) return clock.ns(step->begin);
    }
  }
  return from_ns;
}

// The middle of the window, from a step of the critical role on.
void choose_range(const TraceFile& file, const Analysis& analysis, const Window& window, int steps,
                  Timeline& timeline) {
  double period_ns = 0;
  if (const RoleReport* role = analysis.role(analysis.critical_role); role != nullptr && !window.tracks.empty()) {
    const TrackClock clock(file, window.tracks.front(), origin_ns(file));
    period_ns = role->period_median * (analysis.unit == "ns" ? 1 : clock.ns_per_tick());
  }
  const double length = window.end_ns - window.begin_ns;
  const double shown = period_ns > 0 ? std::min(period_ns * steps, length) : length;
  const double middle = window.begin_ns + (length - shown) / 2;
  timeline.begin_ns = std::min(first_step_ns(file, window, analysis.critical_role, middle), window.end_ns - shown);
  timeline.end_ns = timeline.begin_ns + std::max(shown, 1.0);
}

void add_track(const TraceFile& file, std::size_t track, Timeline& timeline) {
  const TrackClock clock(file, track, origin_ns(file));
  const std::size_t lane = timeline.lanes.size();
  std::vector<bool> has(file.roles().size());
  using Kind = Timeline::Kind;
  const auto add = [&](std::uint64_t begin, std::uint64_t end, std::size_t role, Kind kind, std::string what) {
    const double from = std::max(clock.ns(begin), timeline.begin_ns), to = std::min(clock.ns(end), timeline.end_ns);
    if (to > from || (to == from && kind == Kind::kPhase))
      timeline.spans.push_back({lane, from, to, role, kind, std::move(what)});
  };
  const std::size_t before = timeline.spans.size();
  StepReader reader(file, track);
  while (const Step* step = reader.next()) {
    has[step->role] = true;
    if (clock.ns(step->end) <= timeline.begin_ns || clock.ns(step->begin) >= timeline.end_ns) continue;
    if (timeline.spans.size() >= kMostSpans) {
      timeline.cut = true;
      break;
    }
    add(step->begin, step->end, step->role, Kind::kStep,
        fmt::format("{} step {}", timeline.roles[step->role], step->number));
    for (const WaitSpan& span : step->waits)
      add(span.begin, span.end, step->role, Kind::kWait, fmt::format("waits for {}", file.waits()[span.wait].name));
    for (const PhaseStart& phase : step->phases)
      add(phase.begin, phase.begin, step->role, Kind::kPhase, "phase " + file.phases()[phase.phase]);
  }
  if (timeline.spans.size() == before) return;
  std::string name = std::to_string(file.tracks()[track].index);
  for (std::size_t r = 0; r < has.size(); ++r) {
    if (has[r]) name += " " + timeline.roles[r];
  }
  timeline.lanes.push_back(std::move(name));
}

}  // namespace

Timeline timeline_of(const TraceFile& file, const Analysis& analysis, int steps) {
  Timeline timeline;
  const std::vector<Window> windows = find_windows(file);
  if (windows.empty()) return timeline;
  auto window = std::find_if(windows.begin(), windows.end(), [](const Window& w) { return w.steady; });
  if (window == windows.end()) window = windows.begin();
  timeline.group = window->group;
  timeline.steady = window->steady;
  for (const auto& role : file.roles()) timeline.roles.push_back(role.name);
  choose_range(file, analysis, *window, steps, timeline);
  for (const std::size_t track : window->tracks) add_track(file, track, timeline);
  return timeline;
}

}  // namespace pinch::trace
