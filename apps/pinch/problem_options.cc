#include "apps/pinch/problem_options.h"

#include <fmt/core.h>

#include <charconv>
#include <limits>
#include <string>
#include <string_view>

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

void add_size_options(CLI::App& command, GemmProblem& problem) {
  add_whole_number(command, "--m", problem.m, "Rows of the activations");
  add_whole_number(command, "--n", problem.n, "Output channels");
  add_whole_number(command, "--k", problem.k, "Columns of activations and weights");
}

void add_type_options(CLI::App& command, GemmProblem& problem) {
  add_enum(command, "--format", problem.format, {Fp4Format::kNvfp4, Fp4Format::kMxfp4}, "Format of the weights");
  add_enum(command, "--output", problem.output, {OutputType::kBf16, OutputType::kF32}, "Type of the result");
}

Result<int> parse_cuda(std::string_view text) {
  int ordinal = 0;
  if (text == "cuda") return ordinal;
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const auto [stop, status] = std::from_chars(text.data() + kPrefix.size(), text.data() + text.size(), ordinal);
    if (status == std::errc() && stop == text.data() + text.size() && ordinal >= 0) return ordinal;
  }
  return Error{ErrorCode::kInvalidArgument, fmt::format("'{}'; give cpu, cuda or cuda:N", text), "--device"};
}

void AttentionProblemOptions::add_to(CLI::App& command) {
  problem_.dim = 128;
  add_whole_number(command, "--batch", problem_.batch, "Sequences; 1 where left out");
  add_whole_number(command, "--heads", problem_.heads, "Heads of the queries");
  kv_heads_ = add_whole_number(command, "--kv-heads", problem_.kv_heads,
                               "Heads of keys and values, a divisor of --heads; as many where left out");
  add_whole_number(command, "--seq", problem_.seq, "Queries of a sequence");
  kv_seq_ = add_whole_number(command, "--kv-seq", problem_.kv_seq, "Keys of a sequence; --seq where left out");
  add_whole_number(command, "--dim", problem_.dim, "Of a head, 64 or 128; 128 where left out");
  command.add_flag("--causal", problem_.causal, "The last query sees all keys, each one before it one key less");
  add_enum(command, "--pv", problem_.pv, {PvType::kBf16, PvType::kFp8, PvType::kFp4},
           "In what P and V are multiplied; what a device cannot multiply is an emulation of the numerics");
  add_enum(command, "--qk", problem_.qk, {QkType::kBf16, QkType::kFp8},
           "In what Q and K are multiplied; on a CPU fp8 is an emulation");
}

AttentionProblem AttentionProblemOptions::problem() const {
  AttentionProblem filled = problem_;
  if (kv_heads_->count() == 0) filled.kv_heads = filled.heads;
  if (kv_seq_->count() == 0) filled.kv_seq = filled.seq;
  return filled;
}

}  // namespace pinch::cli
