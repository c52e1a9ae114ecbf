#include "apps/pinch/measure_options.h"

#include <fmt/core.h>

#include "apps/pinch/problem_options.h"

namespace pinch::cli {

namespace {

constexpr double kCudaBudgetS = 4;

}  // namespace

void MeasureOptionGroup::add_to(CLI::App& command) {
  budget_ =
      command
          .add_option("--budget", budget_s_,
                      fmt::format("Seconds to spend on each problem; {:g} on a CPU and {:g} on a CUDA device where "
                                  "left out",
                                  measure::Policy{}.budget_s, kCudaBudgetS))
          ->type_name("S");
  cold_set_ =
      add_whole_number(command, "--cold-set", cold_set_mib_,
                       "MiB of weights that cold calls walk through; twice the last-level cache where left out");
}

Result<measure::Policy> MeasureOptionGroup::policy(bool on_cuda) const {
  if (!(budget_s_ > 0)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}; give the seconds to spend on a problem, above 0", budget_s_), "--budget"};
  }
  constexpr std::int64_t kMostMib = 1 << 20;
  if (cold_set_->count() > 0 && (cold_set_mib_ < 1 || cold_set_mib_ > kMostMib)) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}; give 1 to {} MiB", cold_set_mib_, kMostMib),
                 "--cold-set"};
  }
  if (on_cuda && cold_set_->count() > 0) {
    return Error{ErrorCode::kInvalidArgument, "cold calls on a CUDA device follow a read of 256 MiB: leave it out",
                 "--cold-set"};
  }
  measure::Policy policy;
  policy.budget_s = on_cuda && budget_->count() == 0 ? kCudaBudgetS : budget_s_;
  policy.cold_set_bytes = static_cast<std::size_t>(cold_set_mib_) << 20;
  return policy;
}

}  // namespace pinch::cli
