// cuBLAS bf16 beside our kernels: opened at run time, absent where there is none.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "tests/gpu/support/device_buffer.h"

namespace pinch::gpu_test {

class Cublas {
 public:
  // The library that PINCH_CUBLAS names, else the loader's libcublas.so.13 or .12.
  explicit Cublas(cudaStream_t stream);
  bool present() const { return handle_ != nullptr; }
  const std::string& why_absent() const { return why_absent_; }

  // out[m, n] = a[m, k] x w[n, k]^T, rows without gaps, FP32 accumulation. Whether it was enqueued.
  bool run(const void* a, const void* w, void* out, int m, int n, int k) const;

 private:
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                       const void*, void*, int, int, int, int);
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
  void* handle_ = nullptr;
  Gemm gemm_ = nullptr;
  DeviceBuffer<std::byte> workspace_;
  std::string why_absent_;
};

}  // namespace pinch::gpu_test
