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

/// @p cp.async.cg.shared.global: 16 bytes.
__device__ __forceinline__ void cp_async_cg_16(std::uint32_t shared, const void* global, bool p) {
  asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16;}" ::"r"(shared),
               "l"(global), "r"(static_cast<std::uint32_t>(p))
               : "memory");
}

/// cp.async.commit_group
__device__ __forceinline__ void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// cp.async.wait_group: at most kPending of this thread's newest groups are still on their way.
template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
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
