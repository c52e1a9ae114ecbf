// cuBLAS bf16 beside our kernels: opened at run time, absent where there is none.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/cuda/runtime.h"

namespace pinch::cuda {

/// The element type of an output.
enum class CublasOutput { kBf16, kF32 };

class Cublas {
 public:
  /// A handle for one stream of a device. The library is the one that PINCH_CUBLAS names, else the loader's
  /// libcublas.so.13 or .12. Errors: kNotFound where none opens, kDevice where it gives no handle.
  static Result<Cublas> open(int device, cudaStream_t stream);

  /// out[m, n] = alpha * a[m, k] x w[n, k]^T, bf16 operands, rows without gaps, FP32 accumulation.
  Result<void> run(const void* a, const void* w, void* out, CublasOutput output, float alpha, std::int64_t m,
                   std::int64_t n, std::int64_t k) const;
  [[nodiscard]] int version() const { return version_; }  ///< 130100 is 13.1.0

 private:
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                       const void*, void*, int, int, int, int);
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what its documentation asks for on Hopper
  Cublas() = default;

  void* handle_ = nullptr;  // lives as long as the process, as the library does
  Gemm gemm_ = nullptr;
  int version_ = 0;
  DeviceMemory workspace_;
};

}  // namespace pinch::cuda
