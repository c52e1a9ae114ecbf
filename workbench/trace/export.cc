#include "workbench/trace/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/core/file_error.h"
#include "src/core/html_text.h"
#include "src/core/json_text.h"
#include "workbench/trace/steps.h"
#include "workbench/trace/timeline.h"

namespace pinch::trace {
namespace {

// Text that goes to a file piece by piece; the first failure is kept. A pipe or device is written as it is.
class TextFile {
 public:
  explicit TextFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wb")) {
    keep(file_ != nullptr);
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() {
    if (file_ != nullptr) std::fclose(file_);
  }

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    buffer_.clear();
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    if (number_ == 0) keep(std::fwrite(buffer_.data(), 1, buffer_.size(), file_) == buffer_.size());
  }

  Result<void> close() {
    if (file_ != nullptr) keep(std::fclose(file_) == 0);
    file_ = nullptr;
    if (number_ != 0) return os_error(path_, "write the trace", number_);
    return {};
  }

 private:
  void keep(bool good) {
    if (!good && number_ == 0) number_ = errno == 0 ? EIO : errno;
  }
  std::string path_;
  std::FILE* file_;
  std::string buffer_;
  int number_ = 0;
};

std::string quoted(const std::string& text) {
  return json_text(nlohmann::json(text));
}

std::vector<bool> roles_of(const TraceFile& file, std::size_t track) {
  std::vector<bool> has(file.roles().size());
  StepReader reader(file, track);
  while (const Step* step = reader.next()) has[step->role] = true;
  return has;
}

std::string track_name(const TraceFile& file, std::size_t track) {
  std::string roles;
  const std::vector<bool> has = roles_of(file, track);
  for (std::size_t r = 0; r < has.size(); ++r) {
    if (has[r]) roles += (roles.empty() ? "" : ", ") + file.roles()[r].name;
  }
  return fmt::format("{} {}", file.tracks()[track].index, roles);
}

// Perfetto keeps whole ns. Both ends are rounded, not lengths: a part stays within its step, and one slice begins where
// the one before it ended.
std::int64_t whole_ns(const TrackClock& clock, std::uint64_t ticks) {
  constexpr double kMost = 9e18;  // any more does not fit, and no clock runs that long
  return std::llround(std::clamp(clock.ns(ticks), 0.0, kMost));
}

// A step of a role in a group, so that the one which let a wait end can be found.
struct Release {
  std::int64_t begin = 0, half = 0, end = 0;  // half: when half of its time outside waits had gone by
  std::size_t track = 0;
};

std::uint64_t events_of(const Step& step) {
  return 1 + step.waits.size() + step.phases.size();
}

Release release_of(const Step& step, const TrackClock& clock, std::size_t track) {
  std::uint64_t half = step.begin + (step.end - step.begin - step.waited()) / 2;
  for (const WaitSpan& wait : step.waits) {
    if (wait.begin < half) half += wait.end - wait.begin;
  }
  return {whole_ns(clock, step.begin), whole_ns(clock, half), whole_ns(clock, step.end), track};
}

using Releases = std::vector<std::vector<Release>>;  // by role, each ascending by its end

template <class Visit>
void each_step(const TraceFile& file, const Window& window, std::uint64_t origin, const Visit& visit) {
  for (const std::size_t track : window.tracks) {
    const TrackClock clock(file, track, origin);
    StepReader reader(file, track);
    while (const Step* step = reader.next()) visit(clock.ns(step->begin), events_of(*step));
  }
}

// A time in ns: the steps of the group that begin before it hold at most `most` events, and no less than half of that
// unless more begin at once.
double early_end(const TraceFile& file, const Window& window, std::uint64_t origin, std::uint64_t most) {
  double first = std::numeric_limits<double>::infinity(), last = 0;
  each_step(file, window, origin, [&](double begin, std::uint64_t) {
    first = std::min(first, begin);
    last = std::max(last, begin);
  });
  double length = last - first + 1;
  std::uint64_t kept = 0;
  // Steps may lie close together: the part where they become too many is divided again.
  while (kept < most / 2 && length > 1) {
    std::vector<std::uint64_t> parts(4096);
    const double width = length / static_cast<double>(parts.size());
    each_step(file, window, origin, [&](double begin, std::uint64_t events) {
      if (begin >= first && begin < first + length)
        parts[std::min(static_cast<std::size_t>((begin - first) / width), parts.size() - 1)] += events;
    });
    std::size_t count = 0;
    for (; count < parts.size() && kept + parts[count] <= most; ++count) kept += parts[count];
    first += static_cast<double>(count) * width;
    length = width;
  }
  return first;
}

// Slices are pairs of B and E, and never one X: of events at one time, trace processor takes those with a length first
// and the others as they stand in the file, and it binds an arrow to the slice that is open where the arrow stands.
class PerfettoWriter {
 public:
  PerfettoWriter(const TraceFile& file, const std::string& path) : file_(file), out_(path), origin_(origin_ns(file)) {}

  Result<Exported> write(std::uint64_t most_events) {
    out_.print("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"program\":{},\"level\":\"{}\"}},\"traceEvents\":[",
               quoted(file_.program()), to_string(file_.level()));
    for (const Window& window : find_windows(file_)) {
      std::uint64_t events = 0;
      each_step(file_, window, origin_, [&](double, std::uint64_t of_step) { events += of_step; });
      std::uint64_t kept = 0;
      if (done_.written + events <= most_events) {
        kept = write_group(window, std::numeric_limits<double>::infinity());
      } else if (done_.written == 0) {
        kept = write_group(window, early_end(file_, window, origin_, most_events));
      }
      done_.written += kept;
      done_.left_out += events - kept;
    }
    out_.print("\n]}}\n");
    PINCH_TRY(out_.close());
    return done_;
  }

 private:
  const char* comma() { return std::exchange(first_, false) ? "" : ","; }

  void name_of(const char* what, std::size_t track, const std::string& name) {
    out_.print("{}\n{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", comma(), what,
               group_, track, quoted(name));
  }

  void event(const char* phase, std::size_t track, std::int64_t ns, const std::string& more = "") {
    out_.print("{}\n{{\"ph\":\"{}\",\"ts\":{}.{:03},\"pid\":{},\"tid\":{}{}}}", comma(), phase, ns / 1000, ns % 1000,
               group_, track, more);
  }

  void begin(std::size_t track, std::int64_t ns, const std::string& name, const char* category,
             const std::string& more = "") {
    event("B", track, ns, fmt::format(",\"name\":{},\"cat\":\"{}\"{}", quoted(name), category, more));
  }

  // Steps that begin before `until` ns; returns how many events they hold.
  std::uint64_t write_group(const Window& window, double until) {
    std::uint64_t events = 0;
    group_ = window.group;
    // The first track's number: any other would be one more thread, with no name.
    name_of("process_name", window.tracks.front(),
            fmt::format("group {} on unit {}", window.group, file_.tracks()[window.tracks.front()].unit));
    Releases releases(file_.roles().size());
    for (const std::size_t track : window.tracks) {
      name_of("thread_name", track, track_name(file_, track));
      const TrackClock clock(file_, track, origin_);
      StepReader reader(file_, track);
      for (const Step* step = reader.next(); step != nullptr && clock.ns(step->begin) < until; step = reader.next()) {
        releases[step->role].push_back(release_of(*step, clock, track));
        events += events_of(*step);
      }
    }
    for (auto& list : releases)
      std::sort(list.begin(), list.end(), [](const Release& a, const Release& b) { return a.end < b.end; });
    for (const std::size_t track : window.tracks) {
      const TrackClock clock(file_, track, origin_);
      StepReader reader(file_, track);
      for (const Step* step = reader.next(); step != nullptr && clock.ns(step->begin) < until; step = reader.next())
        write_step(*step, track, clock, releases);
    }
    return events;
  }

  void write_step(const Step& step, std::size_t track, const TrackClock& clock, const Releases& releases) {
    begin(track, whole_ns(clock, step.begin), file_.roles()[step.role].name, "step",
          fmt::format(",\"args\":{{\"step\":{},\"complete\":{}}}", step.number, step.complete));
    auto wait = step.waits.begin();
    const std::size_t phases = step.phases.size();
    for (std::size_t p = 0; p <= phases; ++p) {  // what lies before phase p, from phase p - 1 on
      const std::uint64_t from = p == 0 ? step.begin : step.phases[p - 1].begin;
      const std::uint64_t to = p == phases ? step.end : step.phases[p].begin;
      if (p > 0) begin(track, whole_ns(clock, from), file_.phases()[step.phases[p - 1].phase], "phase");
      for (; wait != step.waits.end() && (wait->begin < to || p == phases); ++wait) {
        const std::int64_t end = whole_ns(clock, std::min(wait->end, to));
        const WaitEntry& what = file_.waits()[wait->wait];
        begin(track, whole_ns(clock, std::max(wait->begin, from)), "wait " + what.name, "wait",
              ",\"cname\":\"terrible\"");
        event("E", track, end);
        if (wait->end > to) break;  // a phase began meanwhile: the wait goes on in it
        if (what.from != kNobody) arrow(track, what, end, releases[static_cast<std::size_t>(what.from)]);
      }
      if (p > 0) event("E", track, whole_ns(clock, to));
    }
    event("E", track, whole_ns(clock, step.end));
  }

  void arrow(std::size_t track, const WaitEntry& wait, std::int64_t end, const std::vector<Release>& releases) {
    // A thread signals before the stamp that ends its step, and the wait may end between the two: the step under way,
    // if most of its work was done, else the last that had ended.
    auto step = std::lower_bound(releases.begin(), releases.end(), end,
                                 [](const Release& r, std::int64_t ns) { return r.end < ns; });
    if (step == releases.end() || end <= step->half) {
      if (step == releases.begin()) return;
      --step;
    }
    const std::int64_t leaves = std::min(step->end, end) - 1;  // inside its slice, and before the arrow arrives
    if (leaves < step->begin || step->track == track) return;
    // To a slice of no length: an arrow runs from the slice that begins first, and the wait may have begun before the
    // step that ends it did.
    const std::string more = fmt::format(",\"name\":{},\"cat\":\"barrier\",\"id\":{}", quoted(wait.name), ++flows_);
    event("s", step->track, leaves, more);
    begin(track, end, wait.name, "barrier");
    event("f", track, end, more + ",\"bp\":\"e\"");
    event("E", track, end);
  }

  const TraceFile& file_;
  TextFile out_;
  std::uint64_t origin_, flows_ = 0;
  std::uint32_t group_ = 0;
  Exported done_;
  bool first_ = true;
};

// --- the page

constexpr const char* kColours[] = {"#4e79a7", "#59a14f", "#b07aa1", "#f28e2b",
                                    "#76b7b2", "#9c755f", "#edc948", "#ff9da7"};
constexpr const char *kWaitColour = "#e15759", *kPhaseColour = "#000";
constexpr double kLabel = 150, kWidth = 1100, kLane = 30, kTop = 34;

std::string box(const Timeline& timeline, const Timeline::Span& span) {
  const double scale = kWidth / (timeline.end_ns - timeline.begin_ns);
  using Kind = Timeline::Kind;
  const char* colour = span.kind == Kind::kStep   ? kColours[span.role % std::size(kColours)]
                       : span.kind == Kind::kWait ? kWaitColour
                                                  : kPhaseColour;
  return fmt::format(
      "<rect x='{:.2f}' y='{:.0f}' width='{:.2f}' height='20' fill='{}'{}><title>{}: {:.3f} us</title></rect>\n",
      kLabel + (span.begin_ns - timeline.begin_ns) * scale, kTop + static_cast<double>(span.lane) * kLane,
      std::max((span.end_ns - span.begin_ns) * scale - 0.5, span.kind == Kind::kPhase ? 1.5 : 0.3), colour,
      span.kind == Kind::kWait ? " class='wait'" : "", html_text(span.what), (span.end_ns - span.begin_ns) * 1e-3);
}

// What fits beside the lane, and all of it where one points at it.
std::string label_of(const std::string& lane) {
  constexpr std::size_t kFits = 22;
  if (lane.size() <= kFits) return html_text(lane);
  std::size_t cut = kFits;
  while (cut > 0 && (static_cast<unsigned char>(lane[cut]) & 0xc0) == 0x80) --cut;  // between two characters
  return fmt::format("{}…<title>{}</title>", html_text(lane.substr(0, cut)), html_text(lane));
}

std::string key_of(const Timeline& timeline) {
  const auto key = [](const char* colour, const std::string& what) {
    return fmt::format("<span class='key' style='background:{}'></span>{}", colour, html_text(what));
  };
  std::string text;
  for (std::size_t r = 0; r < timeline.roles.size(); ++r)
    text += key(kColours[r % std::size(kColours)], timeline.roles[r]);
  text += key(kWaitColour, "a wait");
  if (std::any_of(timeline.spans.begin(), timeline.spans.end(),
                  [](const Timeline::Span& span) { return span.kind == Timeline::Kind::kPhase; }))
    text += key(kPhaseColour, "a phase begins");
  return text;
}

std::string svg_of(const Timeline& timeline) {
  std::string shapes;
  for (std::size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
    shapes += fmt::format("<text x='0' y='{:.0f}'>{}</text>\n", kTop + static_cast<double>(lane) * kLane + 14,
                          label_of(timeline.lanes[lane]));
  }
  for (const Timeline::Span& span : timeline.spans) shapes += box(timeline, span);
  const double height = kTop + static_cast<double>(timeline.lanes.size()) * kLane + 10;
  std::string axis;
  for (int i = 0; i <= 4; ++i) {
    const double x = kLabel + kWidth * i / 4;
    axis += fmt::format(
        "<line x1='{0:.1f}' x2='{0:.1f}' y1='22' y2='{1:.0f}' class='grid'/><text x='{0:.1f}' y='16' "
        "text-anchor='{2}'>{3:.2f} us</text>\n",
        x, height - 6,
        i == 0   ? "start"
        : i == 4 ? "end"
                 : "middle",
        (timeline.begin_ns + (timeline.end_ns - timeline.begin_ns) * i / 4) * 1e-3);
  }
  return fmt::format("<svg viewBox='0 0 {:.0f} {:.0f}' role='img'>\n{}{}</svg>\n", kLabel + kWidth + 10, height, axis,
                     shapes);
}

std::string caption_of(const Timeline& timeline) {
  return fmt::format("Group {}, {}: {:.2f} to {:.2f} us after the trace began{}.", timeline.group,
                     timeline.steady ? "within its steady state" : "no steady state was found",
                     timeline.begin_ns * 1e-3, timeline.end_ns * 1e-3, timeline.cut ? " (cut: too much to draw)" : "");
}

}  // namespace

Result<Exported> write_perfetto(const TraceFile& file, const std::string& path, std::uint64_t most_events) {
  return PerfettoWriter(file, path).write(most_events);
}

Result<Exported> write_csv(const TraceFile& file, const std::string& path) {
  TextFile out(path);
  Exported done;
  out.print("group,unit,track,kind,name,value,ticks,ns\n");
  const std::uint64_t origin = origin_ns(file);
  for (std::size_t t = 0; t < file.tracks().size(); ++t) {
    const TrackEntry& track = file.tracks()[t];
    const TrackClock clock(file, t, origin);
    EventReader reader(file, t);
    while (const auto item = reader.next()) {
      const auto kind = static_cast<EventKind>(item->event.kind);
      const char* kinds[] = {"", "step", "wait", "phase", "end"};
      const std::string name = kind == EventKind::kStep    ? file.roles()[item->event.name].name
                               : kind == EventKind::kWait  ? file.waits()[item->event.name].name
                               : kind == EventKind::kPhase ? file.phases()[item->event.name]
                                                           : "";
      std::string cell = "\"";
      for (const char c : name) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
      out.print("{},{},{},{},{}\",{},{},{:.1f}\n", track.group, track.unit, t, kinds[item->event.kind], cell,
                item->event.value, item->ticks, clock.ns(item->ticks));
      ++done.written;
    }
  }
  PINCH_TRY(out.close());
  return done;
}

Result<void> write_html(const TraceFile& file, const Analysis& analysis, const std::string& table,
                        const std::string& path, int steps) {
  const Timeline timeline = timeline_of(file, analysis, steps);
  TextFile out(path);
  out.print(R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{0}: pipeline trace</title><style>
:root {{ color-scheme: light dark; }} body {{ font: 14px system-ui, sans-serif; margin: 24px; max-width: 1300px; }}
pre {{ font: 12px ui-monospace, monospace; overflow-x: auto; }} svg {{ width: 100%; }} svg text {{ font: 11px system-ui, sans-serif; fill: currentColor; }}
.grid {{ stroke: currentColor; opacity: .15; }} .wait {{ opacity: .85; }} .key {{ display: inline-block; width: 12px; height: 12px; margin: 0 4px 0 14px; }}
</style></head><body><h1>{0}</h1><pre>{1}</pre>
)",
            html_text(analysis.program.empty() ? "program" : analysis.program), html_text(table));
  if (!timeline.lanes.empty()) {
    out.print("<p>{} Point at a bar for its name and length.</p><p>{}</p>\n{}", html_text(caption_of(timeline)),
              key_of(timeline), svg_of(timeline));
  }
  out.print("</body></html>\n");
  return out.close();
}

}  // namespace pinch::trace
