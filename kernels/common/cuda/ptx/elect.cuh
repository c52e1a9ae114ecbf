// elect.sync (sm_90): picks one lane of a converged warp. ptxas then issues copies straight from uniform registers,
// where `lane == 0` makes it loop over the lanes.
#pragma once

#include <cstdint>

namespace pinch::ptx {

__device__ __forceinline__ bool elect_sync() {
  uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xFFFFFFFF; selp.b32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

}  // namespace pinch::ptx
