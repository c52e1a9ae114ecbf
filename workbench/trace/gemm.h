// mm_bf16_fp4 on the CPU as a traced program: its three instances timed in rounds, one trace kept.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "pinch/fp4.h"
#include "pinch/gemm.h"
#include "pinch/result.h"
#include "workbench/trace/cost.h"

namespace pinch::trace {

struct GemmRequest {
  std::int64_t m = 1;
  GemmOptions options;
  int rounds = 7;
  Level level = Level::kCoarse;
};

/// Calls with warm weights, repeated to fill 20 ms a sample; the traced instances are those of kernels/.../traced,
/// which nothing else runs. Leaves the trace of the last round in `folder`. Errors: those of TracedGemm::create; kIo;
/// kInterrupted.
Result<Traced> trace_gemm(const Fp4View& weights, const GemmRequest& request, const std::string& folder,
                          const std::function<bool()>& stop_requested = {});

}  // namespace pinch::trace
