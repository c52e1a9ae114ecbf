// Points as real processes: inputs saved once, builds cached, outputs compared with the default's.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "workbench/check/inputs.h"
#include "workbench/sweep/sweep.h"

namespace pinch::sweep {

struct Places {
  std::string work;   ///< folder for inputs, builds, the default's outputs and what trials write; absolute
  std::string token;  ///< PINCH_SWEEP of every process
  int build_jobs = 1;
  Engine engine = Engine::kLocal;
};

class ProcessExecutor final : public Executor {
 public:
  /// `key`: of the sweep; the default's outputs are kept under it.
  ProcessExecutor(const Subject& subject, Places places, std::string key, std::function<bool()> stop_requested = {})
      : subject_(subject), places_(std::move(places)), key_(std::move(key)), stop_(std::move(stop_requested)) {}
  ProcessExecutor(const ProcessExecutor&) = delete;
  ProcessExecutor& operator=(const ProcessExecutor&) = delete;
  ~ProcessExecutor() override;

  /// Saves the inputs, builds what the points need, and runs the default once where the subject has outputs: they are
  /// what the others are compared with. Errors: those of builds.h and inputs.h; kInterrupted.
  Result<void> prepare(const Space& space, const std::vector<Choice>& points) override;
  Result<Trial> run(const Space& space, const Choice& choice, const TrialKey& key, const std::string& device) override;

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
  std::mutex mutex_;
  std::map<std::vector<std::string>, Built> builds_;  // by defines
};

/// What a sweep is known by: SHA-256 over the subject file, its build sources and the files that its command names.
/// `settings` is part of it.
Result<std::string> sweep_key(const Subject& subject, std::string_view settings);

}  // namespace pinch::sweep
