// The `sm90_attention` family behind the interface of all families.
#pragma once

#include "kernels/attention/sm90/tactics.h"
#include "pinch/tactics.h"

namespace pinch {

/// An index of the family is an index of attention::sm90::tactics(). The family is the same in a build without kernels;
/// what a build holds, its kernels say.
const AttentionTacticFamily& sm90_attention_family();

}  // namespace pinch
