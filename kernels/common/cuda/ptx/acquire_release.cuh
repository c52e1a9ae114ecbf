// Acquire loads and release stores at GPU scope, for flags between CTAs.
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

}  // namespace pinch::ptx
