// run() of cpu/run.h, compiled with marks.
#pragma once

#include "kernels/gemm_bf16_fp4/cpu/run.h"

namespace pinch::detail {

void run_coarse(const RunLayout& layout, const GemmProblem& problem, const PackedWeights& weights, const Bf16* a,
                std::int64_t lda, void* out, std::int64_t ldo, std::byte* workspace);
void run_detailed(const RunLayout& layout, const GemmProblem& problem, const PackedWeights& weights, const Bf16* a,
                  std::int64_t lda, void* out, std::int64_t ldo, std::byte* workspace);

}  // namespace pinch::detail
