// One run of one point: a fresh process, its end classified, its metric read, its outputs judged.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/measure/verdict.h"
#include "workbench/sweep/builds.h"
#include "workbench/sweep/subject_file.h"

namespace pinch::sweep {

struct Trial {
  measure::Verdict verdict = measure::Verdict::kOk;
  std::string detail;           ///< why, of a verdict that is not ok; what else was noticed, of one that is
  std::vector<double> samples;  ///< of the metric, as the process gave them
  double wall_s = 0;
  std::string err;                             ///< the last 4 KiB of stderr
  std::map<std::string, std::string> outputs;  ///< name to SHA-256
  std::string binary;                          ///< SHA-256 of a built binary
};

/// Where a process runs.
enum class Engine : std::uint8_t {
  kLocal,
  kSlurm,  ///< through `srun`, which waits in the queue: the deadline and the memory limit are the job's
};
constexpr std::string_view to_string(Engine engine) {
  return engine == Engine::kLocal ? "local" : "slurm";
}

struct Setting {
  Engine engine = Engine::kLocal;
  Values values;        ///< every name: axes, knobs, lets
  std::string binary;   ///< path of the built binary; empty without a build
  std::string inputs;   ///< folder; absolute
  std::string outputs;  ///< folder, empty and absolute; what the program leaves there stays
  std::string device;   ///< "0", "2,3": visible devices; empty: not restricted
  std::string token;    ///< value of PINCH_SWEEP, by which a later start finds what a killed one left running
  bool poison = false;  ///< PINCH_POISON=1 and memory filled by malloc (MALLOC_PERTURB_)
};

/// Runs the program once. What is wrong with the subject is a verdict; an Error is only kInterrupted.
///
///   launch_failed   it could not be started, or exited with a code other than 0
///   crashed         a signal ended it; timeout, out_of_memory as in src/core/subprocess.h
///   wrong           it ended well without the metric, or hash_outputs() says so
///
/// With kSlurm an exit code above 128 is the signal that ended the task, as srun reports it, and Slurm's own words on
/// stderr tell its time and memory limits.
Result<Trial> run_trial(const Subject& subject, const Setting& setting,
                        const std::function<bool()>& stop_requested = {});

/// Fills trial.outputs with the hashes of what lies in `folder`; kWrong where one is missing, no readable array of its
/// kind, or holds a NaN that the subject does not allow.
void hash_outputs(const Subject& subject, const Values& values, const std::string& folder, Trial& trial);

/// Compares the outputs that a trial left in `folder` with the baseline's in `baseline_folder`, by the subject's change
/// class; kWrong with the worst element and the pattern where they fail.
void judge_outputs(const Subject& subject, const Values& values, const std::string& folder,
                   const std::string& baseline_folder, Trial& trial);

/// Bytes as UTF-8, what is none replaced: a program writes what it likes, and results are JSON.
std::string readable(const std::string& bytes);

/// The metric's samples in a finished program's output. Errors: kNotFound saying what was looked for; kCorrupt for
/// numbers that are none, not finite, or not above 0.
Result<std::vector<double>> read_metric(const Metric& metric, const std::string& out, const std::string& outputs_folder,
                                        double wall_s);

}  // namespace pinch::sweep
