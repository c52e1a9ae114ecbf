// Decoding prepared weights in registers: one 32-bit code word and one scale pair to a scaled bf16 A fragment.
//
//   Fragment f = scale_fragment(decode_word(word), decode_scale<F>(scale_words, block));   // f.a[0..3] feed the MMA
//
// Cost for a tile row pair (4 words, 32 weights), read off the SASS of nvcc 13.0: 58 instructions = 34 ALU (20 LOP3 and
// 8 SHF for codes, 4 LOP3 and 2 PRMT for NVFP4 scales) + 8 IMAD.SHL + 16 HMUL2.BF16_V2, that is 1.8 a weight, of which
// 1.06 on the half-rate ALU pipe. The scale broadcast costs nothing: it folds into the multiply as .H0_H0 and .H1_H1.
#pragma once

#include <cstdint>

#include "kernels/common/cuda/ptx/mov.cuh"
#include "kernels/common/cuda/ptx/mul.cuh"
#include "kernels/gemm_bf16_fp4/sm90/prepared.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// Scales of a tile's four k16 blocks for rows r and r+8, as loaded: NVFP4 two words, MXFP4 one (word[1] unused).
struct ScaleWords {
  std::uint32_t word[2];
};

/// The bf16x2 scale pair of k16 block `block` (0..3, a compile-time constant after unrolling). `nvfp4_exponent` is
/// kNvfp4ScaleExponent; handing it over in a register that the compiler cannot see through (a kernel parameter) saves
/// one LOP3 a block, since an instruction holds one immediate and the mask takes it.
template <Format F>
__device__ __forceinline__ std::uint32_t decode_scale(const ScaleWords& s, int block,
                                                      std::uint32_t nvfp4_exponent = kNvfp4ScaleExponent) {
  if constexpr (F == Format::kNvfp4) return decode_scale_pair(F, s.word[block / 2], block, nvfp4_exponent);
  return decode_scale_pair(F, s.word[0], block / 2);
}

/// value * 2^-126 times the scale pair: a0 and a2 by its lower half, a1 and a3 by its upper half. Exact.
__device__ __forceinline__ Fragment scale_fragment(Fragment f, std::uint32_t pair) {
  const std::uint32_t lower = ptx::mov_b32_lower_lower(pair);
  const std::uint32_t upper = ptx::mov_b32_upper_upper(pair);
  f.a[0] = ptx::mul_bf16x2(f.a[0], lower);
  f.a[1] = ptx::mul_bf16x2(f.a[1], upper);
  f.a[2] = ptx::mul_bf16x2(f.a[2], lower);
  f.a[3] = ptx::mul_bf16x2(f.a[3], upper);
  return f;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
