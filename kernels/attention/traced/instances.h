// run() of cpu/run.h, compiled with marks.
#pragma once

#include "kernels/attention/cpu/run.h"

namespace pinch::attention {

void run_coarse(const RunLayout& layout, const AttentionProblem& problem, const AttentionInputs& in,
                const AttentionOutputs& out, std::byte* workspace);
void run_detailed(const RunLayout& layout, const AttentionProblem& problem, const AttentionInputs& in,
                  const AttentionOutputs& out, std::byte* workspace);

}  // namespace pinch::attention
