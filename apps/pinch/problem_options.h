// The options that describe a problem, the same words in every subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "pinch/attention_problem.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch::cli {

/// Adds an option that takes a whole number and says so when it gets something else. Whether the number makes sense is
/// the library's to say.
CLI::Option* add_whole_number(CLI::App& command, const std::string& name, std::int64_t& value, const std::string& help);
CLI::Option* add_whole_number(CLI::App& command, const std::string& name, int& value, const std::string& help);

/// --m --n --k; none of them required.
void add_size_options(CLI::App& command, GemmProblem& problem);

/// --format and --output alone.
void add_type_options(CLI::App& command, GemmProblem& problem);

/// The device of "cuda:N"; "cuda" is "cuda:0". Errors: other words, offering those that --device takes.
Result<int> parse_cuda(std::string_view text);

/// The problem of attention, but for the type of its result.
class AttentionProblemOptions {
 public:
  /// --batch --heads --kv-heads --seq --kv-seq --dim --causal --pv --qk; none of them required.
  void add_to(CLI::App& command);
  /// With what is left out filled in: as many heads and rows of keys as of queries, dim 128. Whether it makes sense is
  /// for validate() to say.
  [[nodiscard]] AttentionProblem problem() const;

 private:
  AttentionProblem problem_;
  CLI::Option* kv_heads_ = nullptr;
  CLI::Option* kv_seq_ = nullptr;
};

}  // namespace pinch::cli
