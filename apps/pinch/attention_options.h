// The options that tune and bench share for attention: which problem, on which device.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "pinch/attention_problem.h"
#include "workbench/ladder/task.h"

namespace pinch::cli {

class AttentionOptionGroup {
 public:
  /// --batch --heads --kv-heads --seq --kv-seq --dim --causal --pv --qk --output --device --threads --isa
  void add_to(CLI::App& command);

  /// The problem as a task. Forces the instruction set of --isa, so it must come before anything asks for it. Errors:
  /// an invalid problem; kUnsupported for a device without kernels.
  Result<std::unique_ptr<ladder::Task>> task();

 private:
  AttentionProblem problem_;
  std::string device_ = "cpu", isa_;
  int threads_ = 0;
  CLI::Option* kv_heads_ = nullptr;
  CLI::Option* kv_seq_ = nullptr;
};

}  // namespace pinch::cli
