// A subject file swept from its beginning to its report: store, builds, every problem, broken contracts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "workbench/sweep/executor.h"
#include "workbench/sweep/sweep.h"
#include "workbench/sweep/sweep_report.h"

namespace pinch::sweep {

struct RunRequest {
  Options sweep;
  std::string database, work;            ///< empty: where they usually are
  std::vector<std::string> demonstrate;  ///< contracts that are broken on purpose, by id
  bool fresh = false;                    ///< forget what an earlier start stored
  int build_jobs = 0, jobs = 1;          ///< builds at a time, 0: one a CPU; jobs in Slurm's queue at once
  Engine engine = Engine::kLocal;
};

struct RunHooks {
  std::function<bool()> stop_requested;
  std::function<void(std::size_t done, std::size_t total, const StoredTrial& ended)> trial_ended;
  std::function<void(const std::string&)> say;  ///< to a person who waits
};

/// Makes the request one for this subject: sets of devices, the metric's direction. Errors: kInvalidArgument for too
/// few devices, for a contract that is none, and for what Slurm cannot do.
Result<void> prepare(const Subject& subject, RunRequest& request);

/// Runs a prepared request; the subject must outlive the report. One that is stopped reports what there is. Errors:
/// those of the store, of builds and inputs, of rules; kInterrupted where it was stopped while another process ran the
/// sweep.
Result<Report> run(const Subject& subject, const RunRequest& request, const RunHooks& hooks);

}  // namespace pinch::sweep
