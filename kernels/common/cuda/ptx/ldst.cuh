// Loads, stores and asynchronous copies, one instruction a function.
#pragma once

#include <cstdint>

namespace pinch::ptx {

/// ld.global.cg.v4.f32: cached in L2 only, for data that other blocks wrote.
__device__ __forceinline__ float4 ld_global_cg_v4(const float* p) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

/// @p ld.relaxed.gpu.global.L1::no_allocate.v4.u32: 16 bytes that are read once; undefined when `p` is false. Relaxed
/// and not .nc because ptxas leaves it where it is written: it sinks .nc loads to the end of a loop, which halves their
/// lead.
__device__ __forceinline__ uint4 ld_relaxed_gpu_no_allocate_v4(const void* address, bool p) {
  uint4 v;
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %5, 0; @p ld.relaxed.gpu.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];}"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(address), "r"(static_cast<std::uint32_t>(p)));
  return v;
}

/// @p ld.relaxed.gpu.global.L1::no_allocate.v2.u32
__device__ __forceinline__ uint2 ld_relaxed_gpu_no_allocate_v2(const void* address, bool p) {
  uint2 v;
  asm volatile("{.reg .pred p; setp.ne.u32 p, %3, 0; @p ld.relaxed.gpu.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];}"
               : "=r"(v.x), "=r"(v.y)
               : "l"(address), "r"(static_cast<std::uint32_t>(p)));
  return v;
}

/// @p ld.relaxed.gpu.global.L1::no_allocate.u32
__device__ __forceinline__ std::uint32_t ld_relaxed_gpu_no_allocate(const void* address, bool p) {
  std::uint32_t v;
  asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p ld.relaxed.gpu.global.L1::no_allocate.u32 %0, [%1];}"
               : "=r"(v)
               : "l"(address), "r"(static_cast<std::uint32_t>(p)));
  return v;
}

/// cp.async.cg.shared.global, 16 bytes of which `source_bytes` (0 or 16) are read and the rest zero-filled.
__device__ __forceinline__ void cp_async_cg_16(std::uint32_t shared, const void* global, std::uint32_t source_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(source_bytes)
               : "memory");
}

/// cp.async.wait_all
__device__ __forceinline__ void cp_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// st.shared.v4.f32
__device__ __forceinline__ void st_shared_v4(std::uint32_t shared, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

/// ld.shared.v4.f32
__device__ __forceinline__ float4 ld_shared_v4(std::uint32_t shared) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(shared)
               : "memory");
  return v;
}

/// ldmatrix.sync.aligned.m8n8.x4.shared.b16
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], std::uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}

}  // namespace pinch::ptx
