// Storing what a consumer thread has of O.
#pragma once

#include <cuda_bf16.h>

#include "kernels/attention/sm90/params.cuh"
#include "kernels/attention/sm90/traits.cuh"

namespace pinch::attention::sm90 {

// One element pair of O.
__device__ __forceinline__ void store_pair(const Params& params, int64_t at, float a, float b) {
  if (params.output_f32) {
    *reinterpret_cast<float2*>(static_cast<float*>(params.o) + at) = make_float2(a, b);
  } else {
    *reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(params.o) + at) = __floats2bfloat162_rn(a, b);
  }
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

// This thread's two rows of O = sums * factor, and their log-sum-exp.
template <typename T>
__device__ __forceinline__ void epilogue(const Params& params, const OutputRows& out, const float (&sums)[T::kDim / 2],
                                         const float (&factor)[2], const float (&lse)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    if (row >= out.count) return;
    const int64_t at = out.o + 8 * row * params.o_row_stride + 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < T::kDim / 8; ++n)
      store_pair(params, at + 8 * n, sums[4 * n + 2 * row] * factor[row], sums[4 * n + 2 * row + 1] * factor[row]);
    if (out.lse != nullptr && lane % 4 == 0) out.lse[8 * row] = lse[row];
  }
}

}  // namespace pinch::attention::sm90
