#include "workbench/ladder/roofline.h"

#include <algorithm>

#include "pinch/machine.h"
#include "workbench/measure/limits.h"

namespace pinch::ladder {

double least_bytes(const GemmProblem& problem) {
  const auto m = static_cast<double>(problem.m), n = static_cast<double>(problem.n), k = static_cast<double>(problem.k);
  const double out_bytes = problem.output == OutputType::kBf16 ? 2 : 4;
  return n * k / 2 + n * k / static_cast<double>(group_size(problem.format)) + 2 * m * k + out_bytes * m * n;
}

double flops(const GemmProblem& problem) {
  return 2 * static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.k);
}

double bound_ns(double flops, double bytes, const Roofline& roofline, measure::Protocol protocol) {
  const double gbps = protocol == measure::Protocol::kCold ? roofline.cold_gbps : roofline.warm_gbps;
  if (roofline.gflops <= 0 || gbps <= 0) return 0;
  return std::max(flops / roofline.gflops, bytes / gbps);
}

Result<Roofline> measure_roofline(int threads, std::size_t cold_bytes, std::size_t weight_bytes) {
  PINCH_ASSIGN(choice, cpu_choice());
  return Roofline{measure::multiply_add_gflops(choice.isa, threads), measure::read_gbps(cold_bytes, threads),
                  measure::read_gbps(weight_bytes, threads)};
}

}  // namespace pinch::ladder
