#include "workbench/cuda/operands.h"

namespace pinch::cuda {

namespace {

constexpr int kBlocks = 1056;
constexpr int kThreads = 256;

__device__ std::int64_t first_index() {
  return blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
}
__device__ std::int64_t index_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): neighbouring numbers become unrelated ones.
__device__ std::uint32_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<std::uint32_t>(x >> 32);
}

/// Box and Muller's transform.
__global__ void random_bf16(Bf16* values, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::uint64_t at = seed * 0x9e3779b9ULL + 2 * static_cast<std::uint64_t>(i);
    const float u = (static_cast<float>(mix(at)) + 0.5F) * 0x1p-32F;
    const float v = static_cast<float>(mix(at + 1)) * 0x1p-32F;
    values[i] = to_bf16(sqrtf(-2 * logf(fminf(u, 1 - 0x1p-24F))) * cospif(2 * v));
  }
}

__global__ void dequantise(Fp4View weights, int group, Bf16* dense) {
  const std::int64_t groups = weights.k / group;
  for (std::int64_t i = first_index(); i < weights.n * weights.k; i += index_step()) {
    const std::int64_t row = i / weights.k, column = i % weights.k;
    const std::uint8_t byte = weights.codes[i / 2];
    const E2m1 code{static_cast<std::uint8_t>(column % 2 == 0 ? byte & 15 : byte >> 4)};
    const std::uint8_t scale = weights.scales[scale_offset(weights.scale_layout, row, column / group, groups)];
    const float factor = weights.format == Fp4Format::kNvfp4 ? to_f32(E4m3{scale}) : to_f32(Ue8m0{scale});
    dense[i] = to_bf16(to_f32(code) * factor);
  }
}

}  // namespace

Result<void> enqueue_random_bf16(Bf16* values, std::int64_t count, std::uint64_t seed, cudaStream_t stream) {
  random_bf16<<<kBlocks, kThreads, 0, stream>>>(values, count, seed);
  return check(cudaGetLastError(), "making activations");
}

Result<void> enqueue_dequantise(const Fp4View& weights, Bf16* dense, cudaStream_t stream) {
  dequantise<<<kBlocks, kThreads, 0, stream>>>(weights, static_cast<int>(group_size(weights.format)), dense);
  return check(cudaGetLastError(), "dequantising weights");
}

}  // namespace pinch::cuda
