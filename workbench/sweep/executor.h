// Points as real processes: inputs saved once, builds cached, outputs compared with the default's.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "workbench/check/inputs.h"
#include "workbench/sweep/sweep.h"

namespace pinch::sweep {

struct Places {
  std::string work;    ///< folder for inputs, builds, the default's outputs and what trials write; absolute
  std::string token;   ///< PINCH_SWEEP of every process
  std::string device;  ///< that the default's outputs are made on, and contracts are broken on
  int build_jobs = 1;
  Engine engine = Engine::kLocal;
  bool fresh = false;  ///< make the default's outputs again although they are there
};

// Empty folders, one for each trial that runs: one is emptied and used again, for making and removing a folder waits
// for a file system's journal on a busy disk.
class OutputFolders {
 public:
  explicit OutputFolders(std::string parent) : parent_(std::move(parent)) {}
  OutputFolders(const OutputFolders&) = delete;
  OutputFolders& operator=(const OutputFolders&) = delete;
  ~OutputFolders();
  Result<std::string> take();
  void give_back(std::string folder);

 private:
  std::string parent_;
  std::mutex mutex_;
  std::vector<std::string> idle_;
  unsigned made_ = 0;
};

class ProcessExecutor final : public Executor {
 public:
  /// `key`: of the sweep; the default's outputs are kept under it.
  ProcessExecutor(const Subject& subject, Places places, std::string key, std::function<bool()> stop_requested = {})
      : subject_(subject),
        places_(std::move(places)),
        key_(std::move(key)),
        stop_(std::move(stop_requested)),
        folders_(places_.work + "/trials") {}

  /// Saves the inputs, builds what the points need, and runs the default once where the subject has outputs: they are
  /// what the others are compared with, and stay for a later start. Errors: those of builds.h and inputs.h;
  /// kInterrupted.
  Result<void> prepare(const Space& space, const std::vector<Choice>& points) override;
  Result<Trial> run(const Space& space, const Choice& choice, const TrialKey& key) override;

  /// Runs a point with poisoned memory, whatever rule it breaks, `times` times. The verdict is that of the first run
  /// that is not ok, with kUnstable where outputs differ between runs.
  Result<Measured> demonstrate(const Space& space, const Choice& choice, int times);

  [[nodiscard]] const std::vector<check::SavedInput>& inputs() const { return inputs_; }
  /// Why the default's outputs are not there to compare with; empty where they are, or the subject has none.
  [[nodiscard]] const std::string& baseline_failure() const { return baseline_failure_; }

 private:
  Result<Trial> execute(const Space& space, const Choice& choice, const std::string& device, bool poison,
                        const std::string& outputs);
  Result<const Built*> built(const Values& values);
  Result<void> save_inputs(const Space& space);
  Result<void> build_all(const Space& space, const std::vector<Choice>& points);
  Result<void> record_baseline(const Space& space);

  const Subject& subject_;
  Places places_;
  std::string key_;
  std::function<bool()> stop_;
  std::vector<check::SavedInput> inputs_;
  std::string inputs_folder_, baseline_folder_, baseline_failure_;
  std::map<std::string, std::string> baseline_hashes_;
  OutputFolders folders_;
  std::mutex mutex_;
  std::map<std::vector<std::string>, Built> builds_;  // by defines
};

/// What a sweep is known by: SHA-256 over the subject file, the sources, the program, the files that its command names,
/// and the variables that change what programs do (check/environment.h). `settings` is part of it. Errors: kNotFound,
/// kIo for a source.
Result<std::string> sweep_key(const Subject& subject, std::string_view settings);

}  // namespace pinch::sweep
