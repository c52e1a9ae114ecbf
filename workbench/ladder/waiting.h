// Who waits for whom, as the pipeline rung reads it from a trace.
#pragma once

#include <functional>

#include "pinch/result.h"
#include "workbench/ladder/climb.h"
#include "workbench/trace/analysis.h"
#include "workbench/trace/cost.h"
#include "workbench/trace/cuda_kernels.h"
#include "workbench/trace/subjects.h"

namespace pinch::ladder {

/// The share of their time for which the threads or warps that feed the matrix unit wait, in whatever role; where no
/// role is marked so, the largest share for which one role waits for the one that is blamed most.
Waiting waiting_of(const trace::Analysis& analysis, const trace::Cost& cost);

/// Traces calls of an instrumented twin for about a tenth of a second, or twenty calls. Errors: those of trace_subject.
Result<Waiting> trace_waiting(const trace::Subject& subject, const std::function<bool()>& stop_requested);

/// What trace_waiting needs of a kernel compiled with its marks: its time untraced and its coarse marks. Programs are
/// kept in store::kernels_path().
trace::CudaKernel waiting_kernel(const std::string& tactic, const std::string& sources, const std::string& folder,
                                 const cuda::Device& device, const std::function<bool()>& stop_requested);

/// The same of such a kernel, which writes traces in `folder`. Errors: those of trace_program.
Result<Waiting> trace_waiting(trace::CudaProgram compiled, const std::string& folder,
                              const std::function<bool()>& stop_requested);

}  // namespace pinch::ladder
