// Kernel Tuner cache files: a recorded tuning run, replayed with no device.
#pragma once

#include <memory>
#include <string>

#include "workbench/sweep/sweep.h"

namespace pinch::sweep {

struct Recording {
  Subject subject;                      ///< knobs with the file's values
  std::vector<Choice> choices;          ///< the recorded configurations, ascending; the default is one of them
  std::map<std::string, Trial> trials;  ///< of them, by Space::text
  Rule absent;                          ///< what refuses the others
  std::string device;
};

/// Reads a cache file of Kernel Tuner (schema 1.0 and 1.1, or without a version; also one whose run was cut off before
/// the closing brackets). Configurations with an error text for a time get its verdict: InvalidConfig illegal,
/// CompilationFailedConfig compile_failed, RuntimeFailedConfig launch_failed. The samples are the entry's `times` in
/// their order without the first, which is cold (up to five times the others in public files); the objective alone
/// where there are fewer than three or it is no mean of them. Errors: kNotFound, kIo, kCorrupt naming what is missing.
Result<Recording> read_recording(const std::string& path);

/// Gives the recorded samples, one a round.
class ReplayExecutor final : public Executor {
 public:
  explicit ReplayExecutor(const Recording& recording) : recording_(recording) {}
  Result<std::vector<Choice>> points(const Space& space, const Subject& subject, ProblemResult& result) override;
  Result<Trial> run(const Space& space, const Choice& choice, const TrialKey& key) override;

 private:
  const Recording& recording_;
};

}  // namespace pinch::sweep
