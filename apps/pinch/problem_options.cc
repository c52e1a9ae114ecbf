#include "apps/pinch/problem_options.h"

#include <fmt/core.h>

#include <charconv>
#include <limits>
#include <string>

#include "apps/pinch/enum_option.h"

namespace pinch::cli {
namespace {

template <class Int>
CLI::Option* add_number(CLI::App& command, const std::string& name, Int& value, const std::string& help) {
  const auto parse = [name, &value](const std::string& text) {
    const char* end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), end, value);
    if (status == std::errc() && stop == end) return;
    throw CLI::ValidationError(name, fmt::format("'{}' is not a whole number that fits; the largest is {}", text,
                                                 std::numeric_limits<Int>::max()));
  };
  return command.add_option_function<std::string>(name, parse, help)->type_name("INT");
}

}  // namespace

CLI::Option* add_whole_number(CLI::App& command, const std::string& name, std::int64_t& value,
                              const std::string& help) {
  return add_number(command, name, value, help);
}
CLI::Option* add_whole_number(CLI::App& command, const std::string& name, int& value, const std::string& help) {
  return add_number(command, name, value, help);
}

void add_problem_options(CLI::App& command, GemmProblem& problem) {
  add_whole_number(command, "--m", problem.m, "Rows of the activations")->required();
  add_whole_number(command, "--n", problem.n, "Output channels")->required();
  add_whole_number(command, "--k", problem.k, "Columns of activations and weights")->required();
  add_type_options(command, problem);
}

void add_type_options(CLI::App& command, GemmProblem& problem) {
  add_enum(command, "--format", problem.format, {Fp4Format::kNvfp4, Fp4Format::kMxfp4}, "Format of the weights");
  add_enum(command, "--output", problem.output, {OutputType::kBf16, OutputType::kF32}, "Type of the result");
}

}  // namespace pinch::cli
