#pragma once

namespace pinch::ptx {

// The device's wall clock. It advances in steps: 32 ns on an H200, up to 1 us elsewhere.
__device__ __forceinline__ long long globaltimer_ns() {
  long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

}  // namespace pinch::ptx
