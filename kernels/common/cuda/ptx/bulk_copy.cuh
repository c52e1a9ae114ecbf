// cp.async.bulk (sm_90): copies between global and shared memory by the copy engine.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace pinch::ptx {

// `bytes` (a multiple of 16) from global to shared memory; completion is counted in bytes on `barrier`.
__device__ __forceinline__ void cp_async_bulk_shared_global(uint32_t destination, const void* source, uint32_t bytes,
                                                            uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

// The same bytes into every CTA of the cluster named in `mask`, at the same shared address; each CTA's barrier counts
// them.
__device__ __forceinline__ void cp_async_bulk_shared_global_multicast(uint32_t destination, const void* source,
                                                                      uint32_t bytes, uint32_t barrier, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
      "%4;" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier), "h"(mask)
      : "memory");
}

// Asks L2 for `bytes` (a multiple of 16) at a 16-byte aligned address.
__device__ __forceinline__ void cp_async_bulk_prefetch_l2(const void* address, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
}

// One box of a two-dimensional tensor map; (x, y) is the box's first element, x the contiguous dimension.
__device__ __forceinline__ void cp_async_bulk_tensor_2d_shared_global(uint32_t destination, const CUtensorMap* map,
                                                                      int x, int y, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          destination),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// One box of a four-dimensional tensor map; x is the contiguous dimension.
__device__ __forceinline__ void cp_async_bulk_tensor_4d_shared_global(uint32_t destination, const CUtensorMap* map,
                                                                      int x, int y, int z, int w, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}

// The same box into every CTA of the cluster named in `mask`, at the same shared addresses; each CTA's barrier counts
// it.
__device__ __forceinline__ void cp_async_bulk_tensor_2d_multicast(uint32_t destination, const CUtensorMap* map, int x,
                                                                  int y, uint32_t barrier, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(mask)
      : "memory");
}

// One box from shared to global memory; parts outside the tensor are not written.
__device__ __forceinline__ void cp_async_bulk_tensor_2d_global_shared(const CUtensorMap* map, int x, int y,
                                                                      uint32_t source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y),
               "r"(source)
               : "memory");
}

__device__ __forceinline__ void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most kPending of this thread's newest bulk groups still read their source.
template <int kPending>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

template <int kPending>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void prefetch_tensormap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

}  // namespace pinch::ptx
