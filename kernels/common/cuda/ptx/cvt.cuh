// Conversions, one a function.
#pragma once

#include <cstdint>

namespace pinch::ptx {

/// ex2.approx.ftz.f32 lives in kernels/attention/numerics.h, which the host compiles too.

/// cvt.rn.satfinite.e4m3x2.f32: two FP32 to the nearest E4M3, saturating; `high` in the upper byte.
__device__ __forceinline__ std::uint16_t cvt_e4m3x2(float high, float low) {
  std::uint16_t d;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(d) : "f"(high), "f"(low));
  return d;
}

/// cvt.rn.f16x2.e4m3x2: two E4M3 as f16, exact; the upper byte in the upper half.
__device__ __forceinline__ std::uint32_t cvt_f16x2_e4m3x2(std::uint16_t a) {
  std::uint32_t d;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(a));
  return d;
}

#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)
/// cvt.rn.satfinite.e2m1x2.f32: two FP32 to the nearest E2M1, saturating; `high` in the upper nibble of the byte.
__device__ __forceinline__ std::uint32_t cvt_e2m1x2(float high, float low) {
  std::uint32_t d;
  asm("{ .reg .b8 byte; cvt.rn.satfinite.e2m1x2.f32 byte, %1, %2; cvt.u32.u8 %0, byte; }"
      : "=r"(d)
      : "f"(high), "f"(low));
  return d;
}
#endif

}  // namespace pinch::ptx
