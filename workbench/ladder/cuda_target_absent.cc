// The CUDA target of a build without CUDA: it says so.
#include "pinch/gemm_cuda.h"
#include "workbench/ladder/gemm_target.h"

namespace pinch::ladder {

Result<std::unique_ptr<GemmTarget>> make_cuda_target(int ordinal) {
  return cuda::gemm_device(ordinal).error();
}

}  // namespace pinch::ladder
