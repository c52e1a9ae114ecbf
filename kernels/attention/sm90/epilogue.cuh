// Storing what a consumer thread has of O.
#pragma once

#include <cuda_bf16.h>

#include "kernels/attention/sm90/params.cuh"
#include "kernels/attention/sm90/traits.cuh"

namespace pinch::attention::sm90 {

__device__ __forceinline__ uint32_t bf16x2_of(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const uint32_t&>(pair);
}

// Of four neighbouring lanes: word j of lane i becomes word i of lane j.
__device__ __forceinline__ void transpose_quad(uint32_t (&word)[4]) {
  const auto swap = [&](uint32_t& low, uint32_t& high, unsigned lanes) {
    const bool upper = (threadIdx.x & lanes) != 0;
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFF, upper ? low : high, static_cast<int>(lanes));
    if (upper) {
      low = other;
    } else {
      high = other;
    }
  };
  swap(word[0], word[1], 1);
  swap(word[2], word[3], 1);
  swap(word[0], word[2], 2);
  swap(word[1], word[3], 2);
}

// Where a thread's two rows go, and how many of them there are: the second is 8 below the first.
struct OutputRows {
  int64_t o;   // elements
  float* lse;  // or null
  int count;
};

__device__ __forceinline__ OutputRows output_rows(const Params& params, const Block& block, int first_row) {
  const bool variable = params.cu_seqlens_q != nullptr;
  const int64_t row = first_row + (variable ? block.q_row : 0), batch = variable ? 0 : block.batch;
  OutputRows out;
  out.o = batch * params.o_batch_stride + block.head * params.o_head_stride + row * params.o_row_stride;
  out.lse = params.lse == nullptr
                ? nullptr
                : params.lse + batch * params.lse_batch_stride + block.head * params.lse_head_stride + row;
  out.count = first_row >= block.seq ? 0 : first_row + 8 >= block.seq ? 1 : 2;
  return out;
}

// This thread's two rows of O = sums * factor, and their log-sum-exp. Bf16 rows that are aligned to 16 bytes are stored
// so: a quad of lanes first collects 8 columns a lane, for a store of 4 bytes a lane fills half a sector.
template <typename T>
__device__ __forceinline__ void epilogue(const Params& params, const OutputRows& out, const float (&sums)[T::kDim / 2],
                                         const float (&factor)[2], const float (&lse)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const bool stored = row < out.count;
    const int64_t at = out.o + 8 * row * params.o_row_stride;
    const auto value = [&](int n, int column) { return sums[4 * n + 2 * row + column] * factor[row]; };
    if (params.output_wide) {
#pragma unroll
      for (int n = 0; n < T::kDim / 8; n += 4) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) word[i] = bf16x2_of(value(n + i, 0), value(n + i, 1));
        transpose_quad(word);
        if (stored)
          *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(params.o) + at + 8 * (n + lane % 4)) = {
              word[0], word[1], word[2], word[3]};
      }
    } else if (stored) {
#pragma unroll
      for (int n = 0; n < T::kDim / 8; ++n) {
        const int64_t pair = at + 8 * n + 2 * (lane % 4);
        if (params.output_f32) {
          *reinterpret_cast<float2*>(static_cast<float*>(params.o) + pair) = make_float2(value(n, 0), value(n, 1));
        } else {
          *reinterpret_cast<uint32_t*>(static_cast<__nv_bfloat16*>(params.o) + pair) =
              bf16x2_of(value(n, 0), value(n, 1));
        }
      }
    }
    if (stored && out.lse != nullptr && lane % 4 == 0) out.lse[8 * row] = lse[row];
  }
}

}  // namespace pinch::attention::sm90
