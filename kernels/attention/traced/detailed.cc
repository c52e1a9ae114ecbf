#define PINCH_TRACE_LEVEL 2
#include "kernels/attention/cpu/run_body.h"
#include "kernels/attention/traced/instances.h"

namespace pinch::attention {

void run_detailed(const RunLayout& layout, const AttentionProblem& problem, const AttentionInputs& in,
                  const AttentionOutputs& out, std::byte* workspace) {
  run_call(layout, problem, in, out, workspace);
}

}  // namespace pinch::attention
