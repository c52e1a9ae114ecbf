// Barriers of warps in a block and of blocks in a cluster, one instruction a function.
#pragma once

#include <cstdint>

namespace pinch::ptx {

/// barrier.cta.sync id, threads: `threads` is a multiple of 32; id 0 is __syncthreads.
__device__ __forceinline__ void barrier_cta_sync(std::uint32_t id, std::uint32_t threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// barrier.cluster.arrive.release
__device__ __forceinline__ void barrier_cluster_arrive_release() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/// barrier.cluster.wait.acquire
__device__ __forceinline__ void barrier_cluster_wait_acquire() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace pinch::ptx
