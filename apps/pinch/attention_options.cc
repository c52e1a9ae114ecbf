#include "apps/pinch/attention_options.h"

#include <fmt/core.h>

#include <cstdlib>

#include "apps/pinch/cli.h"
#include "apps/pinch/enum_option.h"
#include "pinch/machine.h"
#include "workbench/ladder/attention_task.h"
#include "workbench/ladder/machine.h"

namespace pinch::cli {

void AttentionOptionGroup::add_to(CLI::App& command) {
  problem_.add_to(command);
  for (const char* name : {"--heads", "--seq"}) command.get_option(name)->required();
  add_enum(command, "--output", output_, {OutputType::kBf16, OutputType::kF32}, "Type of the result");
  command.add_option("--device", device_, "Where it runs: cpu, cuda, or cuda:N for device N")
      ->type_name("DEVICE")
      ->capture_default_str();
  thread_option_ =
      add_whole_number(command, "--threads", threads_, "Worker threads; every core of the process where left out");
  command.add_option("--isa", isa_, "Use this instruction set alone, as PINCH_CPU does")->type_name("NAME");
}

Result<AttentionProblem> AttentionOptionGroup::problem() const {
  AttentionProblem problem = problem_.problem();
  problem.output = output_;
  PINCH_TRY(validate(problem));
  return problem;
}

Result<int> AttentionOptionGroup::cuda_device() const {
  PINCH_ASSIGN(ordinal, parse_cuda(device_));
  if (thread_option_->count() > 0 || !isa_.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--threads and --isa are the CPU's: leave them out with --device cuda",
                 ""};
  }
  return ordinal;
}

Result<int> AttentionOptionGroup::cpu_threads() const {
  if (!isa_.empty()) {
    PINCH_TRY(parse_cpu_isa(isa_));
    ::setenv("PINCH_CPU", isa_.c_str(), /*overwrite=*/1);
  }
  PINCH_TRY(cpu_choice());
  return ladder::choose_threads(threads_);
}

Result<std::unique_ptr<ladder::Task>> AttentionOptionGroup::task() {
  PINCH_ASSIGN(problem, this->problem());
  if (on_cuda()) {
    PINCH_ASSIGN(ordinal, cuda_device());
    return ladder::make_cuda_attention_task(problem, ordinal, project_sources());
  }
  PINCH_ASSIGN(threads, cpu_threads());
  return ladder::make_cpu_attention_task(problem, threads);
}

}  // namespace pinch::cli
