#include "apps/pinch/measure_options.h"

#include <fmt/core.h>

#include "apps/pinch/problem_options.h"

namespace pinch::cli {

void MeasureOptionGroup::add_to(CLI::App& command) {
  command.add_option("--budget", budget_s_, "Seconds to spend on each problem")->capture_default_str()->type_name("S");
  cold_set_ =
      add_whole_number(command, "--cold-set", cold_set_mib_,
                       "MiB of weights that cold calls walk through; twice the last-level cache where left out");
}

Result<measure::Policy> MeasureOptionGroup::policy() const {
  if (!(budget_s_ > 0)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}; give the seconds to spend on a problem, above 0", budget_s_), "--budget"};
  }
  constexpr std::int64_t kMostMib = 1 << 20;
  if (cold_set_->count() > 0 && (cold_set_mib_ < 1 || cold_set_mib_ > kMostMib)) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}; give 1 to {} MiB", cold_set_mib_, kMostMib),
                 "--cold-set"};
  }
  measure::Policy policy;
  policy.budget_s = budget_s_;
  policy.cold_set_bytes = static_cast<std::size_t>(cold_set_mib_) << 20;
  return policy;
}

}  // namespace pinch::cli
