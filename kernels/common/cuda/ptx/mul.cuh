// Multiplication instructions, one a function.
#pragma once

#include <cstdint>

namespace pinch::ptx {

/// mul.rn.bf16x2: two bf16 products; subnormal inputs are kept.
__device__ __forceinline__ std::uint32_t mul_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

}  // namespace pinch::ptx
