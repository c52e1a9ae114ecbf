// Kernel Tuner cache files: a recorded tuning run, replayed with no device.
#pragma once

#include <memory>
#include <string>

#include "workbench/sweep/sweep.h"

namespace pinch::sweep {

struct Recording {
  Subject subject;  ///< knobs with the file's values; every recorded configuration is a point, others are not run
  std::map<std::string, Trial> trials;  ///< by Space::text; samples in the file's own order
  std::string device;
};

/// Reads a cache file of Kernel Tuner (schema 1.0 and 1.1, or without a version; also one whose run was cut off before
/// the closing brackets). Configurations with an error text for a time get its verdict: InvalidConfig illegal,
/// CompilationFailedConfig compile_failed, RuntimeFailedConfig launch_failed. Errors: kNotFound, kIo, kCorrupt naming
/// what is missing.
Result<Recording> read_recording(const std::string& path);

/// Gives the recorded samples, one a round. A configuration that the file does not hold is kIllegal.
class ReplayExecutor final : public Executor {
 public:
  explicit ReplayExecutor(const Recording& recording) : recording_(recording) {}
  Result<Trial> run(const Space& space, const Choice& choice, const TrialKey& key) override;

 private:
  const Recording& recording_;
};

}  // namespace pinch::sweep
