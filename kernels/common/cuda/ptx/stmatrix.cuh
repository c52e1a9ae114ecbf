// stmatrix (sm_90): stores 8 x 8 matrices of 16-bit elements from the mma fragment layout to shared memory.
#pragma once

#include <cstdint>

namespace pinch::ptx {

// Each lane's `address` is one 16-byte row; with .trans a row takes a column of the fragment.
__device__ __forceinline__ void stmatrix_x4_trans(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2,
                                                  uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0),
               "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

__device__ __forceinline__ void stmatrix_x2_trans(uint32_t address, uint32_t r0, uint32_t r1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r0), "r"(r1)
               : "memory");
}

}  // namespace pinch::ptx
