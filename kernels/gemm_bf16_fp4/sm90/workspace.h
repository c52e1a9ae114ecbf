// The workspace, one layout for every tactic of both kernels: flags between CTAs, all zero between launches, then
// partial sums in FP32. So a workspace that was zeroed once serves any tactic and any problem, one launch at a time.
#pragma once

#include <cstddef>

namespace pinch::gemm_bf16_fp4::sm90 {

/// A fixed size, more than any tactic of a device uses: where the flags end must not depend on the tactic.
inline constexpr std::size_t kFlagBytes = 65536;

}  // namespace pinch::gemm_bf16_fp4::sm90
