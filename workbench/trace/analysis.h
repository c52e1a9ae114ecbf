// What a trace says: who is late, who waits for whom, and where the pipeline is steady.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workbench/trace/reader.h"

namespace pinch::trace {

/// All figures of a role are of the steady state. Fractions are of the time that the tracks having the role spend
/// there.
struct RoleReport {
  struct WaitShare {
    std::string name;
    double fraction = 0;
    std::uint64_t count = 0;
  };
  std::string name;
  std::uint64_t tracks = 0;        ///< that have the role
  std::uint64_t steps = 0;         ///< in the whole trace
  std::uint64_t steady_steps = 0;  ///< that began in the steady state
  double period_median = 0;        ///< start to start, in Analysis::unit
  double period_p99 = 0;
  double busy_median = 0;  ///< of a step, without its waits
  double busy = 0;         ///< fraction
  double outside = 0;      ///< fraction in no step of this role: other roles of the thread, or none
  std::vector<WaitShare> waits;
  double blamed = 0;             ///< of all time waited for a named role, the share that waits for this one
  double slowest_track = 0;      ///< its mean period over that of the median track; 0 with one track
  std::uint64_t unfinished = 0;  ///< tracks whose last step, of this role, never ended
  double tracks_waiting = 0;     ///< fraction in which its tracks wait, in whatever role
  bool feeds_matrix = false;     ///< marked so
  bool unmarked = false;         ///< its tracks mark no wait, though others do: that may count as busy
};

/// The unit that the tensor instructions run on, seen through the roles that feed it.
struct MatrixReport {
  std::string role;    ///< empty: no role is marked
  double busy = 0;     ///< fraction of the steady time in which some track of the role is busy, by group
  double wait_p = 0;   ///< fraction of the role's time that waits for "P"
  bool has_p = false;  ///< there is a wait of that name
  double bubbles = 0;  ///< fraction of the steady time in which no track of the role is busy
  std::uint64_t bubble_count = 0;
  double bubble_median = 0, bubble_longest = 0;  ///< in Analysis::unit
};

struct Analysis {
  std::string program;
  Level level = Level::kOff;
  std::string unit;  ///< "ns" or "cycles"
  std::vector<RoleReport> roles;
  std::string critical_role;   ///< the one with most to do; empty where no role has a step
  double critical_margin = 0;  ///< its busy fraction less the next role's
  MatrixReport matrix;

  std::uint64_t groups = 0, steady_groups = 0;  ///< CTAs or processes; those in which a steady state was found
  double steady_share = 0;                      ///< of the groups' time
  double startup_ns = 0, tail_ns = 0;           ///< medians over the groups: before and after the steady state
  double span_ns = 0;                           ///< first stamp to last
  std::uint64_t units = 0, slowest_unit = 0;    ///< SMs
  double unit_imbalance = 0;                    ///< the longest time of a unit over the median one; 0 with one

  std::uint64_t tracks = 0, events = 0;
  std::uint64_t lost_events = 0, lost_tracks = 0;
  std::uint64_t unfinished_tracks = 0, stray_events = 0, backward_stamps = 0;
  std::uint64_t missed_wraps = 0;  ///< tracks whose clock wrapped more often than its stamps show
  bool clock_varies = false;
  std::vector<std::uint64_t> run_ns;

  [[nodiscard]] const RoleReport* role(std::string_view name) const;
};

/// Reads the events twice, a track at a time; memory does not grow with their number. Errors: kInvalidArgument for a
/// trace without a step.
Result<Analysis> analyse(const TraceFile& file);

/// The steady part of a group, in ns since origin_ns(file). Whole where none was found.
struct Window {
  std::uint32_t group = 0;
  bool steady = false;
  double begin_ns = 0, end_ns = 0;   ///< of the steady part
  double first_ns = 0, last_ns = 0;  ///< of the group
  std::vector<std::size_t> tracks;
};
std::vector<Window> find_windows(const TraceFile& file);

}  // namespace pinch::trace
