// What attention should give, on the device in FP64: [batch, heads, seq, dim] and [batch, heads, seq]; rows past a
// sequence's end are left alone. Both wait for the device.
#pragma once

#include "kernels/attention/sm90/tactic.h"
#include "tests/gpu/support/attention_view.cuh"

namespace pinch::gpu_test {

/// With nothing rounded.
void compute_attention_reference(const AttentionView& view, double* o, double* lse);

/// What a kernel of this tile and threshold computes, in its order of tiles and with each rounding of scores, P and V;
/// sums in FP64.
void compute_attention_emulation(const AttentionView& view, const attention::sm90::Tactic& tactic, double* o,
                                 double* lse);

}  // namespace pinch::gpu_test
