// What this machine can do at most, and the bound that puts on one call.
#pragma once

#include <cstddef>

#include "pinch/gemm_problem.h"
#include "pinch/result.h"
#include "workbench/measure/policy.h"

namespace pinch::ladder {

/// Best rates, measured in the same run as what is compared with them.
struct Roofline {
  double gflops = 0;
  double cold_gbps = 0;
  double warm_gbps = 0;
};

/// Bytes a call must move at least: weights with their scales, activations, output; each once.
double least_bytes(const GemmProblem& problem);
double flops(const GemmProblem& problem);
/// Time of a call that reaches the multiply-add rate or the reading rate, whichever binds. 0 where a rate is unknown.
double bound_ns(double flops, double bytes, const Roofline& roofline, measure::Protocol protocol);

/// Measures the limits: multiply-adds of the widest instruction set in use, reading `cold_bytes` and `weight_bytes`.
/// Errors: those of cpu_choice().
Result<Roofline> measure_roofline(int threads, std::size_t cold_bytes, std::size_t weight_bytes);

}  // namespace pinch::ladder
