// The options that tune and bench share: which weights, which rows, on how many threads.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "pinch/fp4.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch::cli {

class GemmOptionGroup {
 public:
  /// --weights --tensor --m --n --k --format --output --threads --isa
  void add_to(CLI::App& command);

  /// Reads or generates the weights. Forces the instruction set of --isa, so it must come before anything asks for it.
  /// Errors: options that contradict each other, what the file or the shape refuses.
  Result<Fp4Matrix> weights();

  /// Worker threads; see ladder::choose_threads.
  [[nodiscard]] Result<int> threads() const;
  [[nodiscard]] const std::vector<std::int64_t>& rows() const { return m_; }
  [[nodiscard]] OutputType output() const { return problem_.output; }
  /// Where the weights came from, for people.
  [[nodiscard]] const std::string& weights_name() const { return name_; }

 private:
  [[nodiscard]] Result<void> check() const;

  std::vector<std::int64_t> m_;
  GemmProblem problem_;
  std::string file_, tensor_, isa_, name_;
  int threads_ = 0;
  CLI::Option* format_ = nullptr;
};

}  // namespace pinch::cli
