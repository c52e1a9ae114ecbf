// Register moves that repack 16-bit halves, one a function.
#pragma once

#include <cstdint>

namespace pinch::ptx {

/// mov.b32 {l, l}: the lower half twice. Written with .b16 halves because ptxas then folds it into a bf16x2 operand as
/// .H0_H0 and no instruction remains; the same thing through prmt stays a PRMT (read off the SASS of nvcc 13.0).
__device__ __forceinline__ std::uint32_t mov_b32_lower_lower(std::uint32_t a) {
  std::uint32_t d;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l};}" : "=r"(d) : "r"(a));
  return d;
}

/// mov.b32 {h, h}: the upper half twice (.H1_H1).
__device__ __forceinline__ std::uint32_t mov_b32_upper_upper(std::uint32_t a) {
  std::uint32_t d;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h};}" : "=r"(d) : "r"(a));
  return d;
}

/// mov.b32 {low, high}: two 16-bit halves (PRMT).
__device__ __forceinline__ std::uint32_t mov_b32_halves(std::uint16_t low, std::uint16_t high) {
  std::uint32_t d;
  asm("mov.b32 %0, {%1, %2};" : "=r"(d) : "h"(low), "h"(high));
  return d;
}

}  // namespace pinch::ptx
