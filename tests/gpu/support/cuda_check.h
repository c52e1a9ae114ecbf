// What a GPU test program does about CUDA errors and machines without a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "pinch/result.h"

// In a test program an unexpected CUDA error ends the run: the context may be broken.
#define PINCH_CUDA_CHECK(call)                                                                             \
  do {                                                                                                     \
    const cudaError_t pinch_error = (call);                                                                \
    if (pinch_error != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(pinch_error)); \
      std::exit(1);                                                                                        \
    }                                                                                                      \
  } while (0)

namespace pinch::gpu_test {

// The same for what the workbench's CUDA room returns.
template <class T>
T require(Result<T> result, const char* what) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s: %s\n", what, result.error().message().c_str());
  std::exit(1);
}
inline void require(const Result<void>& result, const char* what) {
  if (result.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, result.error().message().c_str());
  std::exit(1);
}

inline constexpr int kSkipped = 77;  // exit status; tests/gpu/CMakeLists.txt tells CTest

// Ends the program with kSkipped, saying so, unless device 0 is one that sm_90a code runs on.
inline void skip_without_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    std::printf("skipped: no CUDA device (%s)\n", error != cudaSuccess ? cudaGetErrorString(error) : "none listed");
    std::exit(kSkipped);
  }
  cudaDeviceProp properties{};
  PINCH_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  if (properties.major != 9 || properties.minor != 0) {
    std::printf("skipped: device 0 (%s) has compute capability %d.%d, these kernels need 9.0\n", properties.name,
                properties.major, properties.minor);
    std::exit(kSkipped);
  }
  PINCH_CUDA_CHECK(cudaSetDevice(0));
}

}  // namespace pinch::gpu_test
