#include "apps/pinch/attention_options.h"

#include <fmt/core.h>

#include <cstdlib>

#include "apps/pinch/enum_option.h"
#include "apps/pinch/problem_options.h"
#include "pinch/machine.h"
#include "workbench/ladder/attention_task.h"
#include "workbench/ladder/machine.h"

namespace pinch::cli {

void AttentionOptionGroup::add_to(CLI::App& command) {
  problem_.dim = 128;
  add_whole_number(command, "--batch", problem_.batch, "Sequences; 1 where left out");
  add_whole_number(command, "--heads", problem_.heads, "Heads of the queries")->required();
  kv_heads_ = add_whole_number(command, "--kv-heads", problem_.kv_heads,
                               "Heads of keys and values, a divisor of --heads; as many where left out");
  add_whole_number(command, "--seq", problem_.seq, "Queries of a sequence")->required();
  kv_seq_ = add_whole_number(command, "--kv-seq", problem_.kv_seq, "Keys of a sequence; --seq where left out");
  add_whole_number(command, "--dim", problem_.dim, "Of a head, 64 or 128; 128 where left out");
  command.add_flag("--causal", problem_.causal, "The last query sees all keys, each one before it one key less");
  add_enum(command, "--pv", problem_.pv, {PvType::kBf16, PvType::kFp8, PvType::kFp4},
           "In what P and V are multiplied; on a CPU fp8 and fp4 are emulations of the numerics, slower than bf16");
  add_enum(command, "--qk", problem_.qk, {QkType::kBf16, QkType::kFp8},
           "In what Q and K are multiplied; on a CPU fp8 is an emulation");
  add_enum(command, "--output", problem_.output, {OutputType::kBf16, OutputType::kF32}, "Type of the result");
  command.add_option("--device", device_, "Where it runs: cpu")->type_name("DEVICE")->capture_default_str();
  add_whole_number(command, "--threads", threads_, "Worker threads; every core of the process where left out");
  command.add_option("--isa", isa_, "Use this instruction set alone, as PINCH_CPU does")->type_name("NAME");
}

Result<std::unique_ptr<ladder::Task>> AttentionOptionGroup::task() {
  if (kv_heads_->count() == 0) problem_.kv_heads = problem_.heads;
  if (kv_seq_->count() == 0) problem_.kv_seq = problem_.seq;
  PINCH_TRY(validate(problem_));
  if (device_.starts_with("cuda")) {
    return Error{ErrorCode::kUnsupported, "attention has no CUDA kernels in this build; leave it out for the CPU",
                 "--device"};
  }
  if (device_ != "cpu") {
    return Error{ErrorCode::kInvalidArgument, fmt::format("'{}'; give cpu", device_), "--device"};
  }
  if (!isa_.empty()) {
    PINCH_TRY(parse_cpu_isa(isa_));
    ::setenv("PINCH_CPU", isa_.c_str(), /*overwrite=*/1);
  }
  PINCH_TRY(cpu_choice());
  PINCH_ASSIGN(threads, ladder::choose_threads(threads_));
  return ladder::make_cpu_attention_task(problem_, threads);
}

}  // namespace pinch::cli
