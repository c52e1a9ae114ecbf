// Loads and stores at GPU scope: acquire and release for flags between CTAs, relaxed for words that are their own flag.
#pragma once

#include <cstdint>

namespace pinch::ptx {

__device__ __forceinline__ uint32_t ld_acquire_gpu(const uint32_t* pointer) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(pointer) : "memory");
  return value;
}

__device__ __forceinline__ void st_release_gpu(uint32_t* pointer, uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(pointer), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t ld_relaxed_gpu(const uint32_t* pointer) {
  uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(pointer) : "memory");
  return value;
}

__device__ __forceinline__ void st_relaxed_gpu(uint32_t* pointer, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(pointer), "r"(value) : "memory");
}

}  // namespace pinch::ptx
