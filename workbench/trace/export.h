// A trace for other eyes: Perfetto and chrome://tracing, a page with a timeline, a spreadsheet.
#pragma once

#include <cstdint>
#include <string>

#include "pinch/result.h"
#include "workbench/trace/analysis.h"

namespace pinch::trace {

struct Exported {
  std::uint64_t written = 0;   ///< events
  std::uint64_t left_out = 0;  ///< events beyond the limit
};

/// Chrome's JSON trace format, which Perfetto opens: a process a group, a thread a track, steps as slices, phases and
/// waits as slices within them (a wait that goes on into the next phase is two), and an arrow from the step that ended
/// a wait to a slice of no length where the wait ended: inferred, of the role that the wait names the step under way if
/// most of its work was done, else the last that had ended. Times are whole ns. Whole groups up to `most_events`, or
/// the first steps of the first one. Errors: kIo.
Result<Exported> write_perfetto(const TraceFile& file, const std::string& path, std::uint64_t most_events = 2000000);

/// One line an event: group, unit, track, kind, name, value, ticks, ns. Errors: kIo.
Result<Exported> write_csv(const TraceFile& file, const std::string& path);

/// A page that needs nothing else: the table, and a timeline of `steps` periods of the critical role out of the steady
/// state of the first group that has one. Errors: kIo.
Result<void> write_html(const TraceFile& file, const Analysis& analysis, const std::string& table,
                        const std::string& path, int steps = 12);

}  // namespace pinch::trace
