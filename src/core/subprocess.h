// One command, run to its end in a session of its own: by its exit, by a deadline, or by a limit. Whatever it started
// is ended with it.
//
// How the end is told apart:
//   exited         it returned an exit code
//   signalled      a signal ended it that this room did not send
//   timed_out      the deadline passed; the whole tree was killed
//   out_of_memory  the tree passed the limit and was killed; or it failed, and either its peak was within a tenth of
//   the
//                  limit, or its stderr says so ("std::bad_alloc", "MemoryError", "out of memory", ...), or the kernel
//                  counted an out-of-memory kill meanwhile
//   stopped        the caller asked for it
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pinch/result.h"

namespace pinch {

struct Command {
  std::vector<std::string> argv;                                 ///< argv[0] is looked up in PATH unless it holds a '/'
  std::vector<std::pair<std::string, std::string>> environment;  ///< set over this process's own
  std::string folder;                                            ///< working directory; empty: the caller's
  double timeout_s = 0;                                          ///< 0: no deadline
  std::uint64_t memory_bytes = 0;  ///< of each process's data (RLIMIT_DATA) and of the whole tree's RSS; 0: no limit
  std::vector<int> cpus;           ///< it may run on; empty: the caller's
  std::size_t stdout_kept = std::size_t{1} << 20;     ///< the last bytes of stdout that are kept; all of it is read
  std::function<void(std::string_view)> stdout_seen;  ///< is given all of it, piece by piece
};

enum class Ending : std::uint8_t { kExited, kSignalled, kTimedOut, kOutOfMemory, kStopped };
std::string_view to_string(Ending ending);

struct Finished {
  Ending ending = Ending::kExited;
  int code = 0;    ///< exit code of kExited
  int signal = 0;  ///< of kSignalled
  double wall_s = 0;
  double cpu_s = 0;              ///< user and system time of the process and the children it waited for
  std::uint64_t peak_bytes = 0;  ///< largest resident set of one process; at least the caller's own, which Linux counts
                                 ///< until the exec
  std::uint64_t stdout_bytes = 0;  ///< all that was written, kept or not
  std::string out;                 ///< the last stdout_kept bytes of stdout
  std::string err;                 ///< the last 4 KiB of stderr
  int left_behind = 0;             ///< descendants that outlived the process and were killed

  [[nodiscard]] bool succeeded() const { return ending == Ending::kExited && code == 0; }
  /// "exited with 3", "killed by SIGSEGV", "no end after 2 s", ...
  [[nodiscard]] std::string describe() const;
};

/// Runs the command with stdin empty, signals at their defaults and no core file. Errors: kInvalidArgument for an empty
/// argv; kNotFound where there is no such program or folder; kIo where the system refuses to start it (no permission,
/// no executable format, no process left).
///
/// The caller becomes a subreaper (prctl) and keeps being one: that is how descendants which left their session are
/// found. Thread-safe; `stop_requested` is asked at least ten times a second.
Result<Finished> run(const Command& command, const std::function<bool()>& stop_requested = {});

/// Kills processes that an earlier run() of a caller which itself was killed left behind: those whose environment holds
/// `NAME=VALUE` with VALUE beginning with `prefix`. Returns how many.
int kill_by_environment(std::string_view name, std::string_view prefix);

/// "SIGSEGV" for 11; "signal 99" for a number without a name.
std::string signal_name(int number);

}  // namespace pinch
