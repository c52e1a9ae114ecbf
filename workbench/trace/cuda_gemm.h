// The wgmma kernel of `pinch trace gemm --device cuda`: compiled on demand at every level, as a program of its own.
#pragma once

#include <functional>
#include <string>

#include "pinch/gemm_problem.h"
#include "pinch/result.h"
#include "workbench/trace/cost.h"

namespace pinch::trace {

struct CudaGemm {
  GemmProblem problem;
  std::string tactic;   ///< of the sm90 family
  int device = 0;       ///< CUDA's number of it
  std::string sources;  ///< the folder of this project's sources
};

/// Compiles kernels/gemm_bf16_fp4/sm90/traced at each level into `folder`, and returns the program to give to
/// trace_program. Its operands are random, its output is checked. Errors: kIllegal for a tactic of the streaming
/// kernel, which has no marks; kUnsupported where there is no nvcc or no source; kInvalidArgument with the compiler's
/// words; kInterrupted.
Result<Program> compile_cuda_gemm(const CudaGemm& gemm, const std::string& folder,
                                  const std::function<bool()>& stop_requested = {});

}  // namespace pinch::trace
