// bar.sync and bar.arrive on one of the CTA's 16 hardware barriers, for a part of its threads.
#pragma once

namespace pinch::ptx {

__device__ __forceinline__ void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Counts this warp in and goes on.
__device__ __forceinline__ void bar_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace pinch::ptx
