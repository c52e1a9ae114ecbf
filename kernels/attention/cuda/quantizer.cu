// The two forms of the NVFP4 quantiser of P alone, a group of 16 keys a thread and step, for reading in SASS:
//
//   NVCC_APPEND_FLAGS="-std=c++20 -I. -Iinclude" pinch sass kernels/attention/cuda/quantizer.cu --arch 90a,100a,103a
//
// counts the instructions of each loop, bench/attention_algebra.py those of the kernels that ship and of the CPU too
// (docs/decisions/0085-quantiser-in-the-log-domain.md). No GPU has run it. sm_90a
// has no E2M1 conversion: its codes are made in integers, alike in both forms.
#include "kernels/attention/numerics.h"
#include "kernels/common/cuda/ptx/cvt.cuh"

namespace pinch::attention {
namespace {

__device__ __forceinline__ std::uint32_t code_pair(float high, float low) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)
  return ptx::cvt_e2m1x2(high, low);
#else
  return to_e2m1(high).bits << 4 | to_e2m1(low).bits;
#endif
}

struct Group {
  float value[kGroup];
};

__device__ __forceinline__ Group load(const float4* scores) {
  Group g;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 part = scores[i];
    g.value[4 * i] = part.x;
    g.value[4 * i + 1] = part.y;
    g.value[4 * i + 2] = part.z;
    g.value[4 * i + 3] = part.w;
  }
  return g;
}

__device__ __forceinline__ float max_of(const Group& g) {
  float top = g.value[0];
#pragma unroll
  for (int i = 1; i < kGroup; ++i) top = fmaxf(top, g.value[i]);
  return top;
}

__device__ __forceinline__ void store(const Group& g, float scale, uint2* codes, std::uint8_t* scales) {
  std::uint32_t word[2] = {};
#pragma unroll
  for (int i = 0; i < kGroup / 2; ++i) {
    word[i / 4] |= code_pair(g.value[2 * i + 1], g.value[2 * i]) << (i % 4 * 8);
  }
  *codes = {word[0], word[1]};
  *scales = static_cast<std::uint8_t>(ptx::cvt_e4m3x2(0.0F, scale));
}

}  // namespace

// Scores `s` as the matrix product leaves them; `factor` is scale * log2(e), `minus` the maximum in log2 units.
extern "C" __global__ void quantize_linear(const float4* s, uint2* codes, std::uint8_t* scales, float* sums,
                                           float factor, float minus, int groups) {
  float sum = 0;
#pragma unroll 1
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < groups; at += gridDim.x * blockDim.x) {
    Group g = load(s + 4 * at);
#pragma unroll
    for (float& x : g.value) x = exp2_hardware(fma(x, factor, -minus));
#pragma unroll
    for (const float x : g.value) sum += x;
    const float held = fmaxf(max_of(g), 0x1p-100F);
    const float fold = __fdividef(kE2m1Max, held);
#pragma unroll
    for (float& x : g.value) x *= fold;
    store(g, held * kE4m3Max, codes + at, scales + at);
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void quantize_log(const float4* s, uint2* codes, std::uint8_t* scales, float* sums, float factor,
                                        float minus, int groups) {
  float sum = 0;
#pragma unroll 1
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < groups; at += gridDim.x * blockDim.x) {
    Group g = load(s + 4 * at);
    const float held = fmaxf(fma(max_of(g), factor, -minus), kSmallestLog2);
    const float scale = exp2_hardware(held + kLog2E4m3Max);
    const float folded = minus + (held - kLog2Six);
    float part = 0;
#pragma unroll
    for (float& x : g.value) {
      x = exp2_hardware(fma(x, factor, -folded));
      part += x;
    }
    sum = fma(part, scale * (1.0F / (kE4m3Max * kE2m1Max)), sum);
    store(g, scale, codes + at, scales + at);
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

}  // namespace pinch::attention
