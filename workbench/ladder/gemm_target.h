// Where a GEMM is tuned and benchmarked: the CPU's cores or a CUDA device. What differs between them is behind this;
// choosing, measuring and concluding are written once (tune, bench).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/fp4.h"
#include "pinch/gemm_problem.h"
#include "workbench/ladder/machine.h"
#include "workbench/ladder/roofline.h"
#include "workbench/ladder/task.h"

namespace pinch::ladder {

/// One problem on prepared weights.
class GemmCase {
 public:
  virtual ~GemmCase() = default;
  virtual Subject& subject() = 0;
  /// Takes the ids of tactics that the subject's check() found ok, and of rivals.
  virtual measure::Sampler& sampler() = 0;
  /// Makes and checks the rivals. A rival that fails or is wrong says so in its Checked.
  virtual Result<Rivals> rivals() = 0;
  /// Task::code.
  virtual Result<Code> code(const std::string& /*tactic*/) { return no_gpu_code(); }
};

class GemmTarget {
 public:
  virtual ~GemmTarget() = default;
  [[nodiscard]] virtual const TacticFamily& family() const = 0;
  [[nodiscard]] virtual const Resources& resources() const = 0;
  [[nodiscard]] virtual const Machine& machine() const = 0;
  /// How samples are taken here, as far as the policy does not say it: part of the key of a stored result.
  [[nodiscard]] virtual std::string_view protocol() const = 0;

  /// Refuses a problem that would not fit into the memory that is free. Errors: kOutOfMemory.
  [[nodiscard]] virtual Result<void> check_memory(const GemmProblem& problem, const measure::Policy& policy,
                                                  bool with_rivals) const = 0;

  /// Puts the weights into the kernels' order and measures the machine's limits; called once.
  virtual Result<void> prepare(Fp4Matrix weights, const measure::Policy& policy) = 0;

  // After prepare().
  [[nodiscard]] virtual const Roofline& roofline() const = 0;
  [[nodiscard]] virtual std::size_t weight_bytes() const = 0;    ///< prepared, that one call reads
  [[nodiscard]] virtual std::size_t cold_set_bytes() const = 0;  ///< that push the weights out between cold calls
  /// A problem of m rows; the target must outlive it. Errors: an invalid problem, too little memory.
  virtual Result<std::unique_ptr<GemmCase>> problem(std::int64_t m, OutputType output) = 0;
  /// Task::waits. Times do not follow from the values of the weights, so any of their shape will do.
  virtual Result<Waiting> waits(const GemmProblem& problem, const std::string& tactic,
                                const std::function<bool()>& stop_requested) = 0;
};

/// Refuses kernels compiled with marks, whose times rank nothing. Errors: kIllegal for a PINCH_TRACE_LEVEL above 0.
Result<void> check_rankable(int trace_level);

/// Errors: what check_rankable refuses of this library; PINCH_CPU names an instruction set that does not exist or that
/// this machine lacks.
Result<std::unique_ptr<GemmTarget>> make_cpu_target(int threads);

/// `sources`: the folder of this project, where kernels with marks are compiled from. Errors: kUnsupported where this
/// build has no CUDA kernels, where there is no driver, no device or none that they run on; kNotFound for a device that
/// is not there.
Result<std::unique_ptr<GemmTarget>> make_cuda_target(int device, const std::string& sources);

/// The problems of one set of weights, one for each m, as tasks. The target gets the weights when the first is
/// prepared.
class GemmWeights {
 public:
  /// `name`: where they came from, for people.
  GemmWeights(GemmTarget& target, Fp4Matrix weights, std::string name);
  /// The target and this must outlive the task.
  std::unique_ptr<Task> task(std::int64_t m, OutputType output);

 private:
  friend class GemmTask;
  Result<void> prepare(const measure::Policy& policy);

  GemmTarget& target_;
  Fp4Matrix weights_;  ///< its shape alone once the target holds the rest
  std::string name_;
  bool prepared_ = false;
};

}  // namespace pinch::ladder
