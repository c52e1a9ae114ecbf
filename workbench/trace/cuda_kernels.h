// The kernels of `pinch trace --device cuda`: compiled on demand at every level, each as a program of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pinch/attention_problem.h"
#include "pinch/cuda.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"
#include "workbench/trace/cost.h"

namespace pinch::trace {

inline constexpr std::size_t kKept = 32;

/// Which kernel of its family, where it is compiled from and to, and what it runs on.
struct CudaKernel {
  std::string tactic;   ///< of the family sm90 or sm90_attention; empty: the default
  std::string sources;  ///< the folder of this project's sources
  std::string folder;
  cuda::Device device;
  std::function<bool()> stop_requested;
  std::vector<Level> levels = {Level::kOff, Level::kCoarse, Level::kDetailed};
  std::string kept = {};  ///< a folder whose programs serve again; empty: compile whatever was compiled before
};

struct CudaProgram {
  Program program;
  std::string tactic;
  double compiled_s = 0;  ///< 0: it was kept
};

/// Compiles kernels/gemm_bf16_fp4/sm90/traced, or that of attention, at each of the levels, and returns the program to
/// give to trace_program. Its operands are random, its output is checked. A program is kept under what it was made of:
/// knobs, sources and compiler; kKept of them. Errors: those of parse_tactic and default_tactic;
/// kUnsupported where there is no nvcc or no source; kInvalidArgument with the compiler's words; kInterrupted.
Result<CudaProgram> compile_cuda_gemm(const GemmProblem& problem, const CudaKernel& kernel);
Result<CudaProgram> compile_cuda_attention(const AttentionProblem& problem, const CudaKernel& kernel);

}  // namespace pinch::trace
