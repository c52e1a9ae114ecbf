// The CPU's own kernels as traced programs: their three instances timed in rounds, one trace kept. The instances with
// marks are those of kernels/*/traced, which nothing else runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "pinch/attention.h"
#include "pinch/fp4.h"
#include "pinch/gemm.h"
#include "pinch/result.h"
#include "workbench/trace/cost.h"

namespace pinch::trace {

/// Something that can be called at each level.
struct Subject {
  std::string name, tactic;
  Names names;
  std::function<void(Level)> call;
};

/// mm_bf16_fp4 of m rows, always by the same weights. Errors: those of plan_gemm.
Result<Subject> gemm_subject(const Fp4View& weights, std::int64_t m, const GemmOptions& options);

/// Attention forward on normal values, without variable lengths. Errors: those of plan_attention.
Result<Subject> attention_subject(const AttentionProblem& problem, const AttentionOptions& options);

/// Calls repeated to fill 20 ms a sample. Leaves the trace of the last round in `folder`. Errors: kIo; kInterrupted.
Result<Traced> trace_subject(const Subject& subject, int rounds, Level level, const std::string& folder,
                             const std::function<bool()>& stop_requested = {});

}  // namespace pinch::trace
