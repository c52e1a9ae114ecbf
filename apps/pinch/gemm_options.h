// The options that tune and bench share: which weights, which rows, on which device.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pinch/fp4.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"
#include "workbench/ladder/gemm_target.h"

namespace pinch::cli {

class GemmOptionGroup {
 public:
  /// --weights --tensor --m --n --k --format --output --device --threads --isa
  void add_to(CLI::App& command);

  /// A task for each of --m, which lasts as long as this. Errors: those of target() and weights().
  Result<std::vector<std::unique_ptr<ladder::Task>>> tasks();

  /// Where it runs. Forces the instruction set of --isa, so it must come before anything asks for it. Errors: options
  /// that contradict each other; what ladder::make_cpu_target or make_cuda_target refuses.
  Result<std::unique_ptr<ladder::GemmTarget>> target();

  /// Reads or generates the weights. Errors: what the file or the shape refuses.
  Result<Fp4Matrix> weights();

  /// The problem of m rows, where nothing reads the weights' values. Errors: those of the options; --weights.
  [[nodiscard]] Result<GemmProblem> shape(std::int64_t m) const;

  [[nodiscard]] bool on_cuda() const { return device_ != "cpu"; }
  [[nodiscard]] const std::vector<std::int64_t>& rows() const { return m_; }
  [[nodiscard]] OutputType output() const { return problem_.output; }
  /// Of --device cuda:N. Errors: another form; options of the CPU beside it.
  [[nodiscard]] Result<int> cuda_device() const;

 private:
  [[nodiscard]] Result<void> check() const;

  std::vector<std::int64_t> m_;
  GemmProblem problem_;
  std::string file_, tensor_, isa_, name_;
  std::string device_ = "cpu";
  int threads_ = 0;
  CLI::Option* format_ = nullptr;
  CLI::Option* thread_option_ = nullptr;
  std::unique_ptr<ladder::GemmTarget> target_;
  std::optional<ladder::GemmWeights> weights_;
};

}  // namespace pinch::cli
