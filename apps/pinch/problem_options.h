// The options that describe a GEMM problem, the same words in every subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "pinch/gemm_problem.h"

namespace pinch::cli {

/// Adds an option that takes a whole number and says so when it gets something else. Whether the number makes sense is
/// the library's to say.
CLI::Option* add_whole_number(CLI::App& command, const std::string& name, std::int64_t& value, const std::string& help);
CLI::Option* add_whole_number(CLI::App& command, const std::string& name, int& value, const std::string& help);

/// --m --n --k (required), --format, --output.
void add_problem_options(CLI::App& command, GemmProblem& problem);

/// --format and --output alone.
void add_type_options(CLI::App& command, GemmProblem& problem);

}  // namespace pinch::cli
