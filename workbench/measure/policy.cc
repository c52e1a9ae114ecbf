#include "workbench/measure/policy.h"

#include <fmt/core.h>

namespace pinch::measure {

std::string Policy::text() const {
  std::string order;
  for (const Protocol protocol : protocols) {
    if (!order.empty()) order += '+';
    order += to_string(protocol);
  }
  return fmt::format(
      "{} budget={}s noise={} rounds={}..{} sample={}ns long={}ns cpu={} clock={} drop={} far={}/{} tie={} cold_set={} "
      "seed={}",
      order, budget_s, noise_target, min_rounds, max_rounds, min_sample_ns, long_call_ns, min_cpu_share, max_clock_move,
      drop_margin, far_margin, far_rounds, tie_band, cold_set_bytes, seed);
}

}  // namespace pinch::measure
