// The CUDA targets of a build without CUDA: they say so.
#include "pinch/gemm_cuda.h"
#include "workbench/ladder/attention_task.h"
#include "workbench/ladder/gemm_target.h"

namespace pinch::ladder {

Result<std::unique_ptr<GemmTarget>> make_cuda_target(int ordinal, const std::string&) {
  return cuda::gemm_device(ordinal).error();
}

Result<std::unique_ptr<Task>> make_cuda_attention_task(const AttentionProblem&, int ordinal, const std::string&) {
  return cuda::gemm_device(ordinal).error();
}

}  // namespace pinch::ladder
