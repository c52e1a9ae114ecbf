// What the programs share that `pinch trace --device cuda` compiles: one kernel with its marks, operands made on the
// device, launches timed with cold L2. Exit status: 0, 1 wrong or failed, 2 usage, 3 no device.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "pinch/trace.cuh"

namespace pinch::traced {

#define PINCH_CHECK(call)                                                                    \
  do {                                                                                       \
    if (const cudaError_t error = (call); error != cudaSuccess) {                            \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                    \
      std::exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 3 : 1); \
    }                                                                                        \
  } while (false)

inline constexpr int kWarmUps = 20, kLaunches = 9;
inline constexpr std::int64_t kOthers = std::int64_t{256} << 20;  // bytes read to push the operands out of L2

__host__ __device__ inline std::uint32_t mix(std::uint64_t x) {
  x = (x + 1) * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return static_cast<std::uint32_t>(x >> 32);
}

__device__ inline std::int64_t first() {
  return blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
}
__device__ inline std::int64_t step() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

/// Values from -2 to 2, other ones for another `salt`.
static __global__ void fill_values(__nv_bfloat16* values, std::int64_t count, std::uint64_t salt) {
  for (std::int64_t i = first(); i < count; i += step())
    values[i] = __float2bfloat16(static_cast<float>(mix(i + (salt << 40)) % 4096) / 1024 - 2);
}

static __global__ void read(const uint4* bytes, std::int64_t count, std::uint32_t* sink) {
  std::uint32_t sum = 0;
  for (std::int64_t i = first(); i < count; i += step()) sum ^= bytes[i].x ^ bytes[i].w;
  if (sum == 0x12345678) *sink = sum;
}

template <typename T>
T* allocate(std::size_t count) {
  T* pointer = nullptr;
  PINCH_CHECK(cudaMalloc(&pointer, count * sizeof(T)));
  return pointer;
}

/// Launches, each timed between events with its marks on, of which the trace keeps the last. The session must be
/// attached.
template <typename Launch>
void time_launches(trace::CudaSession& session, const Launch& launch) {
  auto* others = allocate<std::uint8_t>(kOthers);
  auto* sink = allocate<std::uint32_t>(1);
  PINCH_CHECK(cudaMemset(others, 1, kOthers));
  cudaEvent_t begin, end;
  PINCH_CHECK(cudaEventCreate(&begin));
  PINCH_CHECK(cudaEventCreate(&end));
  for (int i = 0; i < kLaunches; ++i) {
    session.again();
    read<<<1024, 256>>>(reinterpret_cast<const uint4*>(others), kOthers / 16, sink);
    PINCH_CHECK(cudaEventRecord(begin));
    launch();
    PINCH_CHECK(cudaEventRecord(end));
    PINCH_CHECK(cudaEventSynchronize(end));
    float ms = 0;
    PINCH_CHECK(cudaEventElapsedTime(&ms, begin, end));
    session.add_run_ns(ms * 1e6);
  }
}

/// Says how far the outputs are off, and whether that is within the limit.
inline bool accept(double error, double limit, int outputs) {
  std::printf("relative L2 error of %d outputs %.2e, at most %.2e\n", outputs, error, limit);
  return error <= limit;  // false for a NaN
}

}  // namespace pinch::traced
