// Loads from shared memory by address in the shared window: no generic pointer, so no address arithmetic in 64 bits.
#pragma once

#include <cstdint>

namespace pinch::ptx {

__device__ __forceinline__ uint32_t ld_shared_u32(uint32_t address) {
  uint32_t x;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address));
  return x;
}

__device__ __forceinline__ uint2 ld_shared_v2_u32(uint32_t address) {
  uint2 x;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(address));
  return x;
}

__device__ __forceinline__ uint4 ld_shared_v4_u32(uint32_t address) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(address));
  return x;
}

__device__ __forceinline__ float4 ld_shared_v4_f32(uint32_t address) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(address));
  return x;
}

__device__ __forceinline__ void st_shared_v4_u32(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// Stores into the shared memory of any CTA of the cluster; the 16 bytes are counted on a barrier of that CTA. Both
// addresses come from mapa.
__device__ __forceinline__ void st_async_v4_f32(uint32_t address, float4 x, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(barrier)
      : "memory");
}

}  // namespace pinch::ptx
