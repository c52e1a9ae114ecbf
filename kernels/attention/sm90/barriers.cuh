// Waiting for and arriving at the barriers of shared memory.
#pragma once

#include "kernels/common/cuda/ptx/mbarrier.cuh"
#include "kernels/common/cuda/trace.cuh"

namespace pinch::attention::sm90 {

// A position in a ring: stage index, and the parity that its full barrier completes with next.
template <int kStages>
struct RingPosition {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

__device__ __forceinline__ void wait_for(const uint64_t& barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(ptx::shared_address(&barrier), parity)) {
  }
}

// The vote makes the loop's exit uniform, so that what follows may live in uniform registers.
__device__ __forceinline__ void wait_for_warp(const uint64_t& barrier, uint32_t parity) {
  while (!__all_sync(0xFFFFFFFF, ptx::mbarrier_try_wait_parity(ptx::shared_address(&barrier), parity))) {
  }
}

// The same, marked in a traced build: most often nobody waits, and two readings of the clock would say so.
__device__ __forceinline__ void wait_for_warp_as([[maybe_unused]] unsigned what, const uint64_t& barrier,
                                                 uint32_t parity PINCH_TRACE_PARAMETER) {
  if constexpr (kTraced) {
    const bool ready = ptx::mbarrier_test_wait_parity(ptx::shared_address(&barrier), parity);
    if (__builtin_expect(__all_sync(0xFFFFFFFF, ready), 1)) return;
  }
  PINCH_TRACE_WAIT(what);
  wait_for_warp(barrier, parity);
}

__device__ __forceinline__ void arrive(const uint64_t& barrier) {
  ptx::mbarrier_arrive(ptx::shared_address(&barrier));
}
// Lanes of a warp that arrive at a barrier for it. racecheck wants them all (kernels/gemm_bf16_fp4/sm90/kernel.cuh).
#ifdef PINCH_EVERY_LANE_ARRIVES
inline constexpr int kArrivingLanes = 32;
#else
inline constexpr int kArrivingLanes = 1;
#endif
__device__ __forceinline__ void arrive_warp(const uint64_t& barrier) {
  if (kArrivingLanes == 32 || threadIdx.x % 32 == 0) arrive(barrier);
}

// A word of shared memory for the whole warp, read by the lane that arrive_warp() arrives with: the arrival then orders
// the read before the word's next writing.
__device__ __forceinline__ int read_by_first_lane(const int& word) {
  return __shfl_sync(0xFFFFFFFF, threadIdx.x % 32 == 0 ? word : 0, 0);
}

}  // namespace pinch::attention::sm90
