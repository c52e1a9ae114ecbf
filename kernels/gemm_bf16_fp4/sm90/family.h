// The `sm90` family behind the interface of all families.
#pragma once

#include "kernels/gemm_bf16_fp4/sm90/tactics.h"
#include "pinch/tactics.h"

namespace pinch {

/// An index of the family is an index of gemm_bf16_fp4::sm90::tactics(). The family is the same in a build without
/// kernels; what a build holds, its kernels say.
const TacticFamily& sm90_tactic_family();

}  // namespace pinch
