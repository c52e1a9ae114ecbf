// pinch tune without its command line: looks a problem up, tunes it where the answer is not known, and stores it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "workbench/ladder/tactic_rung.h"
#include "workbench/ladder/task.h"
#include "workbench/store/tune_store.h"

namespace pinch::ladder {

struct TuneRequest {
  RungOptions rung;
  Selection selection;  ///< rungs that are answered
  bool force = false;   ///< measure even where the store knows
};

struct TuneReport {
  Work work;
  Resources resources;
  Machine machine;
  measure::Policy policy;
  RungResult result;
  Roofline roofline;
  std::size_t cold_set_bytes = 0;
  bool cached = false;
  std::string measured_at;        ///< UTC; of a cached result the time it was measured
  std::string version;            ///< of the program that measured
  Known<Waiting> waiting;         ///< inside the fastest tactic
  Known<Code> code;               ///< of its kernel
  double explained_s = 0;         ///< what the two took, behind the measuring
  std::int64_t run = 0;           ///< its number in the store; 0: not stored
  std::vector<Finding> findings;  ///< all seven
  std::map<std::string, std::map<std::string, std::string>> knobs;  ///< of each legal tactic, values by name
};

struct TuneHooks {
  std::function<void(const Progress&)> progress;
  std::function<bool()> stop_requested;
  std::function<void(const Error&)> warn;  ///< the store failed; the tune goes on without it
};

/// Whatever can be known to be impossible, before anything is measured. Errors: an invalid problem or one too large for
/// the memory, no legal tactic.
Result<void> refuse_early(const Task& task, const TuneRequest& request);

/// Tunes the task. `store` may be null. Errors: those of refuse_early; no right tactic.
Result<TuneReport> tune(Task& task, const TuneRequest& request, store::TuneStore* store, const TuneHooks& hooks);

}  // namespace pinch::ladder
