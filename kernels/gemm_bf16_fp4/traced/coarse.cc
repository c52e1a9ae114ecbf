#define PINCH_TRACE_LEVEL 1
#include "kernels/gemm_bf16_fp4/cpu/run_body.h"
#include "kernels/gemm_bf16_fp4/traced/instances.h"

namespace pinch::detail {

void run_coarse(const RunLayout& layout, const GemmProblem& problem, const PackedWeights& weights, const Bf16* a,
                std::int64_t lda, void* out, std::int64_t ldo, std::byte* workspace) {
  run_product(layout, problem, weights, a, lda, out, ldo, workspace);
}

}  // namespace pinch::detail
