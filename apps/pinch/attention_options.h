// The options that tune, bench and trace share for attention: which problem, on which device.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/pinch/problem_options.h"
#include "workbench/ladder/task.h"

namespace pinch::cli {

class AttentionOptionGroup {
 public:
  /// --batch --heads --kv-heads --seq --kv-seq --dim --causal --pv --qk --output --device --threads --isa
  void add_to(CLI::App& command);

  /// Errors: an invalid problem.
  [[nodiscard]] Result<AttentionProblem> problem() const;

  /// The problem as a task. Forces the instruction set of --isa, so it must come before anything asks for it. Errors:
  /// an invalid problem, options that contradict each other; what make_cpu_attention_task or make_cuda_attention_task
  /// refuses.
  Result<std::unique_ptr<ladder::Task>> task();

  [[nodiscard]] bool on_cuda() const { return device_ != "cpu"; }
  /// Of --device cuda:N. Errors: another form; options of the CPU beside it.
  [[nodiscard]] Result<int> cuda_device() const;
  /// On the CPU. Forces the instruction set of --isa as task() does. Errors: a set or a number that this machine lacks.
  [[nodiscard]] Result<int> cpu_threads() const;

 private:
  AttentionProblemOptions problem_;
  OutputType output_ = OutputType::kBf16;
  std::string device_ = "cpu", isa_;
  int threads_ = 0;
  CLI::Option* thread_option_ = nullptr;
};

}  // namespace pinch::cli
