#include "workbench/trace/analysis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <queue>

#include "workbench/measure/statistics.h"
#include "workbench/trace/counts.h"
#include "workbench/trace/steady.h"
#include "workbench/trace/steps.h"

namespace pinch::trace {
namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr double kTie = 0.05;      // busy fractions nearer than this do not decide by themselves
constexpr double kFractions = 16;  // counted parts of a ns

std::uint64_t fractions(double ns) {
  constexpr double kMost = 9e18;
  return static_cast<std::uint64_t>(std::llround(std::min(ns * kFractions, kMost)));
}

double median_of(std::vector<double> values) {
  return measure::summarize(std::move(values)).median;
}

// Times from the begin of one step of a role to that of the next.
class Periods {
 public:
  explicit Periods(std::size_t roles) : last_(roles, kNever) {}
  /// The begin of the role's step before this one, or kNever.
  std::uint64_t next(const Step& step) {
    if (step.after_gap) std::fill(last_.begin(), last_.end(), kNever);
    return std::exchange(last_[step.role], step.begin);
  }

 private:
  std::vector<std::uint64_t> last_;
};

struct Extent {
  double begin = std::numeric_limits<double>::infinity();
  double end = -std::numeric_limits<double>::infinity();
  void add(double from, double to) {
    begin = std::min(begin, from);
    end = std::max(end, to);
  }
  [[nodiscard]] double length() const { return std::max(0.0, end - begin); }
};

// One track's part of the window of its group.
void find_in_track(const TraceFile& file, std::size_t track, const TrackClock& clock, Extent& all, Extent& steady,
                   double& shortest, bool& found, std::size_t& series) {
  std::vector<SteadyFinder> finders(file.roles().size());
  Periods periods(file.roles().size());
  StepReader reader(file, track);
  while (const Step* step = reader.next()) {
    all.add(clock.ns(step->begin), clock.ns(step->end));
    const std::uint64_t before = periods.next(*step);
    if (before != kNever) finders[step->role].add(before, step->begin);
  }
  for (const SteadyFinder& finder : finders) {
    if (finder.count() < SteadyFinder::kFewest) continue;
    const Stretch stretch = finder.find();
    ++series;
    found = found && stretch.found;
    steady.begin = std::max(steady.begin, clock.ns(stretch.begin));
    steady.end = std::min(steady.end, clock.ns(stretch.end));
    shortest = std::min(shortest, clock.ns(stretch.end) - clock.ns(stretch.begin));
  }
}

std::uint64_t overlap(std::uint64_t begin, std::uint64_t end, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t low = std::max(begin, from), high = std::min(end, to);
  return high > low ? high - low : 0;
}

struct RoleSums {
  Counts periods, busy;
  double track_time = 0, step_time = 0;
  double track_wait_time = 0;  // in whatever role
  std::vector<double> wait_time;
  std::vector<std::uint64_t> wait_count;
  std::vector<double> track_means;  // mean period of each track
  std::uint64_t tracks = 0, steps = 0, steady_steps = 0, unfinished = 0;
  bool marked = false;  // some track that has the role marks a wait
};

// Ticks as the unit of the report.
class Scale {
 public:
  explicit Scale(bool cycles) : cycles_(cycles) {}
  [[nodiscard]] double length(std::uint64_t ticks, const TrackClock& clock) const {
    return cycles_ ? static_cast<double>(ticks) : static_cast<double>(ticks) * clock.ns_per_tick();
  }
  void count(Counts& counts, std::uint64_t ticks, const TrackClock& clock) const {
    counts.add(cycles_ ? ticks : fractions(length(ticks, clock)));
  }
  [[nodiscard]] double quantile(const Counts& counts, double p) const {
    return counts.quantile(p) / (cycles_ ? 1 : kFractions);
  }

 private:
  bool cycles_;
};

// The busy parts of some roles in one track, in order.
class BusyReader {
 public:
  BusyReader(const TraceFile& file, std::size_t track, const std::vector<bool>& roles, const TrackClock& clock)
      : steps_(file, track), roles_(roles), clock_(clock) {
    advance();
  }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] double begin() const { return begin_; }
  [[nodiscard]] double end() const { return end_; }
  void advance() {
    while (true) {
      if (step_ == nullptr || part_ > step_->waits.size()) {
        do step_ = steps_.next();
        while (step_ != nullptr && !roles_[step_->role]);
        part_ = 0;
        if (step_ == nullptr) {
          done_ = true;
          return;
        }
      }
      const std::uint64_t from = part_ == 0 ? step_->begin : step_->waits[part_ - 1].end;
      const std::uint64_t to = part_ == step_->waits.size() ? step_->end : step_->waits[part_].begin;
      ++part_;
      if (to > from) {
        begin_ = clock_.ns(from);
        end_ = clock_.ns(to);
        return;
      }
    }
  }

 private:
  StepReader steps_;
  const std::vector<bool>& roles_;
  TrackClock clock_;
  const Step* step_ = nullptr;
  std::size_t part_ = 0;
  bool done_ = false;
  double begin_ = 0, end_ = 0;
};

class Bubbles {
 public:
  explicit Bubbles(std::vector<bool> roles) : roles_(std::move(roles)) {}

  void add(const TraceFile& file, const Window& window, std::uint64_t origin) {
    std::vector<std::unique_ptr<BusyReader>> readers;
    const auto later = [&](std::size_t a, std::size_t b) { return readers[a]->begin() > readers[b]->begin(); };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> heads(later);
    for (const std::size_t track : window.tracks) {
      readers.push_back(std::make_unique<BusyReader>(file, track, roles_, TrackClock(file, track, origin)));
      if (readers.back()->done()) {
        readers.pop_back();
      } else {
        heads.push(readers.size() - 1);
      }
    }
    if (readers.empty()) return;
    time_ += window.end_ns - window.begin_ns;
    double covered = window.begin_ns;
    while (!heads.empty() && covered < window.end_ns) {
      const std::size_t head = heads.top();
      heads.pop();
      BusyReader& reader = *readers[head];
      idle(covered, std::min(reader.begin(), window.end_ns));
      covered = std::max(covered, reader.end());
      reader.advance();
      if (!reader.done()) heads.push(head);
    }
    idle(covered, window.end_ns);
  }

  void report(MatrixReport& to, double unit_per_ns) const {
    if (time_ <= 0) return;
    to.bubbles = idle_ / time_;
    to.busy = 1 - to.bubbles;
    to.bubble_count = gaps_.count();
    to.bubble_median = gaps_.quantile(0.5) / kFractions * unit_per_ns;
    to.bubble_longest = longest_ * unit_per_ns;
  }

 private:
  void idle(double from, double to) {
    if (to <= from) return;
    idle_ += to - from;
    longest_ = std::max(longest_, to - from);
    gaps_.add(fractions(to - from));
  }

  std::vector<bool> roles_;
  double time_ = 0, idle_ = 0, longest_ = 0;
  Counts gaps_;
};

class Analyser {
 public:
  explicit Analyser(const TraceFile& file)
      : file_(file),
        origin_(origin_ns(file)),
        scale_((file.header().flags & kReportCycles) != 0),
        sums_(file.roles().size()) {
    for (RoleSums& sums : sums_) {
      sums.wait_time.resize(file.waits().size());
      sums.wait_count.resize(file.waits().size());
    }
  }

  Result<Analysis> run() {
    describe();
    const std::vector<Window> windows = find_windows(file_);
    for (const Window& window : windows) add(window);
    if (std::all_of(sums_.begin(), sums_.end(), [](const RoleSums& s) { return s.steps == 0; })) {
      return Error{
          ErrorCode::kInvalidArgument,
          "the trace holds no step; mark steps with PINCH_TRACE_STEP and compile with PINCH_TRACE_LEVEL 1 or 2",
          out_.program};
    }
    place(windows);
    report_roles();
    report_matrix(windows);
    decide();
    return std::move(out_);
  }

 private:
  void describe() {
    const FileHeader& header = file_.header();
    out_.program = file_.program();
    out_.level = file_.level();
    out_.unit = (header.flags & kReportCycles) != 0 ? "cycles" : "ns";
    out_.clock_varies = (header.flags & kClockVaries) != 0;
    out_.lost_tracks = header.lost_tracks;
    out_.tracks = file_.tracks().size();
    out_.events = file_.events();
    out_.run_ns = file_.run_ns();
  }

  void add(const Window& window) {
    for (const std::size_t track : window.tracks) add_track(window, track);
  }

  void add_track(const Window& window, std::size_t track) {
    const TrackClock clock(file_, track, origin_);
    const std::uint64_t from = clock.ticks(window.begin_ns), to = std::max(from, clock.ticks(window.end_ns));
    std::vector<double> period_sum(sums_.size());
    std::vector<std::uint64_t> period_count(sums_.size());
    std::vector<bool> has(sums_.size());
    bool waits = false;
    double waited = 0;
    Periods periods(sums_.size());
    StepReader reader(file_, track);
    std::uint32_t last_role = 0;
    while (const Step* step = reader.next()) {
      RoleSums& sums = sums_[step->role];
      has[step->role] = true;
      last_role = step->role;
      ++sums.steps;
      const std::uint64_t before = periods.next(*step);
      if (before != kNever && before >= from && step->begin <= to) {
        scale_.count(sums.periods, step->begin - before, clock);
        period_sum[step->role] += scale_.length(step->begin - before, clock);
        ++period_count[step->role];
      }
      const bool begins_here = step->begin >= from && step->begin < to;
      sums.steady_steps += begins_here ? 1 : 0;
      sums.step_time += scale_.length(overlap(step->begin, step->end, from, to), clock);
      for (const WaitSpan& wait : step->waits) {
        const std::uint64_t ticks = overlap(wait.begin, wait.end, from, to);
        waits = true;
        sums.wait_time[wait.wait] += scale_.length(ticks, clock);
        waited += scale_.length(ticks, clock);
        sums.wait_count[wait.wait] += ticks > 0 || begins_here ? 1 : 0;
      }
      if (begins_here && step->complete && step->end <= to)
        scale_.count(sums.busy, step->end - step->begin - step->waited(), clock);
    }
    for (std::size_t role = 0; role < sums_.size(); ++role) {
      if (!has[role]) continue;
      ++sums_[role].tracks;
      sums_[role].marked = sums_[role].marked || waits;
      sums_[role].track_time += scale_.length(to - from, clock);
      sums_[role].track_wait_time += waited;
      if (period_count[role] > 0)
        sums_[role].track_means.push_back(period_sum[role] / static_cast<double>(period_count[role]));
    }
    out_.lost_events += reader.events().lost();
    out_.backward_stamps += reader.events().backwards();
    out_.stray_events += reader.strays();
    const bool unfinished = !reader.ended() || file_.tracks()[track].end_ns == 0;
    out_.unfinished_tracks += unfinished ? 1 : 0;
    if (!reader.ended()) ++sums_[last_role].unfinished;
    check_wraps(track, reader.last_ticks());
  }

  // A clock of few bits that stood unread for longer than it takes to wrap has lost that time, and its anchors tell.
  void check_wraps(std::size_t track, std::uint64_t last) {
    const FileHeader& header = file_.header();
    const TrackEntry& entry = file_.tracks()[track];
    if (header.clock_bits == 64 || header.clock_hz == 0 || entry.end_ns <= entry.begin_ns) return;
    const double expected =
        static_cast<double>(entry.end_ns - entry.begin_ns) * 1e-9 * static_cast<double>(header.clock_hz);
    const double wrap = std::exp2(header.clock_bits);
    if (expected - static_cast<double>(last) > wrap) ++out_.missed_wraps;
  }

  void place(const std::vector<Window>& windows) {
    std::map<std::uint32_t, Extent> units;
    std::vector<double> startup, tail;
    Extent span;
    double time = 0, steady = 0;
    for (const Window& window : windows) {
      ++out_.groups;
      if (window.last_ns > window.first_ns) span.add(window.first_ns, window.last_ns);
      time += window.last_ns - window.first_ns;
      for (const std::size_t track : window.tracks)
        units[file_.tracks()[track].unit].add(window.first_ns, window.last_ns);
      if (!window.steady) continue;
      ++out_.steady_groups;
      steady += window.end_ns - window.begin_ns;
      startup.push_back(window.begin_ns - window.first_ns);
      tail.push_back(window.last_ns - window.end_ns);
    }
    out_.span_ns = span.length();
    out_.steady_share = time > 0 ? steady / time : 0;
    out_.startup_ns = median_of(startup);
    out_.tail_ns = median_of(tail);
    out_.units = units.size();
    if (units.size() < 2) return;
    std::vector<double> lengths;
    double longest = -1;
    for (const auto& [unit, extent] : units) {
      lengths.push_back(extent.length());
      if (extent.length() > longest) {
        longest = extent.length();
        out_.slowest_unit = unit;
      }
    }
    const double middle = median_of(lengths);
    out_.unit_imbalance = middle > 0 ? longest / middle : 0;
  }

  void report_roles() {
    double named = 0;
    std::vector<double> blamed(sums_.size());
    bool any_waits = false;
    for (const RoleSums& sums : sums_) {
      for (std::size_t w = 0; w < sums.wait_time.size(); ++w) {
        any_waits = any_waits || sums.wait_count[w] > 0;
        const int from = file_.waits()[w].from;
        if (from == kNobody) continue;
        blamed[static_cast<std::size_t>(from)] += sums.wait_time[w];
        named += sums.wait_time[w];
      }
    }
    for (std::size_t r = 0; r < sums_.size(); ++r) {
      const RoleSums& sums = sums_[r];
      RoleReport role;
      role.name = file_.roles()[r].name;
      role.tracks = sums.tracks;
      role.steps = sums.steps;
      role.steady_steps = sums.steady_steps;
      role.period_median = scale_.quantile(sums.periods, 0.5);
      role.period_p99 = scale_.quantile(sums.periods, 0.99);
      role.busy_median = scale_.quantile(sums.busy, 0.5);
      role.unfinished = sums.unfinished;
      double waited = 0;
      for (std::size_t w = 0; w < sums.wait_time.size(); ++w) {
        if (sums.wait_count[w] == 0) continue;
        waited += sums.wait_time[w];
        role.waits.push_back({file_.waits()[w].name, part(sums.wait_time[w], sums.track_time), sums.wait_count[w]});
      }
      std::stable_sort(role.waits.begin(), role.waits.end(),
                       [](const auto& a, const auto& b) { return a.fraction > b.fraction; });
      role.busy = std::max(0.0, part(sums.step_time - waited, sums.track_time));
      role.outside = sums.track_time > 0 ? std::max(0.0, 1 - part(sums.step_time, sums.track_time)) : 0;
      role.blamed = part(blamed[r], named);
      role.tracks_waiting = part(sums.track_wait_time, sums.track_time);
      role.feeds_matrix = file_.roles()[r].matrix;
      role.unmarked = any_waits && !sums.marked && sums.steps > 0;
      const double middle = median_of(sums.track_means);
      if (sums.track_means.size() > 1 && middle > 0)
        role.slowest_track = *std::max_element(sums.track_means.begin(), sums.track_means.end()) / middle;
      out_.roles.push_back(std::move(role));
    }
  }

  void report_matrix(const std::vector<Window>& windows) {
    std::vector<bool> feeds(sums_.size());
    for (std::size_t r = 0; r < sums_.size(); ++r) {
      if (!file_.roles()[r].matrix || sums_[r].steps == 0) continue;
      feeds[r] = true;
      out_.matrix.role += (out_.matrix.role.empty() ? "" : " + ") + out_.roles[r].name;
      for (std::size_t w = 0; w < file_.waits().size(); ++w) {
        if (file_.waits()[w].name != "P" && file_.waits()[w].name != "p") continue;
        out_.matrix.has_p = true;
        out_.matrix.wait_p += part(sums_[r].wait_time[w], sums_[r].track_time);
      }
    }
    if (out_.matrix.role.empty()) return;
    Bubbles bubbles(std::move(feeds));
    double rate = 0;
    for (const Window& window : windows) {
      bubbles.add(file_, window, origin_);
      if (rate == 0 && !window.tracks.empty())
        rate = out_.unit == "ns" ? 1 : 1 / TrackClock(file_, window.tracks.front(), origin_).ns_per_tick();
    }
    bubbles.report(out_.matrix, rate);
  }

  void decide() {
    std::vector<const RoleReport*> order;
    for (const RoleReport& role : out_.roles) {
      if (role.steps > 0) order.push_back(&role);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const RoleReport* a, const RoleReport* b) { return a->busy > b->busy; });
    // Of roles that are about as busy, the one that the others wait for sets the pace.
    std::size_t chosen = 0;
    for (std::size_t i = 1; i < order.size() && order[0]->busy - order[i]->busy < kTie; ++i) {
      if (order[i]->blamed > order[chosen]->blamed) chosen = i;
    }
    std::swap(order[0], order[chosen]);
    out_.critical_role = order[0]->name;
    if (order.size() < 2) return;
    double next = 0;
    for (std::size_t i = 1; i < order.size(); ++i) next = std::max(next, order[i]->busy);
    out_.critical_margin = order[0]->busy - next;
  }

  static double part(double time, double of) { return of > 0 ? time / of : 0; }

  const TraceFile& file_;
  std::uint64_t origin_;
  Scale scale_;
  std::vector<RoleSums> sums_;
  Analysis out_;
};

}  // namespace

const RoleReport* Analysis::role(std::string_view name) const {
  const auto found = std::find_if(roles.begin(), roles.end(), [&](const RoleReport& r) { return r.name == name; });
  return found == roles.end() ? nullptr : &*found;
}

std::vector<Window> find_windows(const TraceFile& file) {
  std::map<std::uint32_t, std::vector<std::size_t>> groups;
  for (std::size_t t = 0; t < file.tracks().size(); ++t) groups[file.tracks()[t].group].push_back(t);
  const std::uint64_t origin = origin_ns(file);
  std::vector<Window> windows;
  for (auto& [group, tracks] : groups) {
    Extent all;
    Extent steady{0, std::numeric_limits<double>::infinity()};
    double shortest = std::numeric_limits<double>::infinity();
    bool found = true;
    std::size_t series = 0;
    for (const std::size_t track : tracks)
      find_in_track(file, track, TrackClock(file, track, origin), all, steady, shortest, found, series);
    if (all.end < all.begin) all = {0, 0};
    // Roles that are steady at different times are not steady together.
    found = found && series > 0 && 2 * steady.length() >= shortest;
    windows.push_back({group, found, found ? steady.begin : all.begin, found ? steady.end : all.end, all.begin, all.end,
                       std::move(tracks)});
  }
  return windows;
}

Result<Analysis> analyse(const TraceFile& file) {
  return Analyser(file).run();
}

}  // namespace pinch::trace
