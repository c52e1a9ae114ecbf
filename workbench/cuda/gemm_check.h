// Whether a GEMM's output in a device's memory is right, every element of it: workbench/check/gemm_check.h, with its
// tolerances and their reasons, computed on the device, where a host's FP64 would take longer than a tune may.
//
// A few rows are compared element by element with FP64 sums; every other row by sums over blocks of 128 channels, each
// channel with a random sign, so that no two wrong channels cancel but by chance.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "kernels/common/cuda/runtime.h"
#include "pinch/formats.h"
#include "pinch/gemm_problem.h"

namespace pinch::cuda {

struct GemmOperands {
  const Bf16* a = nullptr;      ///< [m, k]
  const Bf16* dense = nullptr;  ///< [n, k], without alpha
  float alpha = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  OutputType output = OutputType::kBf16;
};

struct OutputVerdict {
  bool right = false;
  std::string why;    ///< of an output that is not right: the worst element or block, and by how much
  double rel_l2 = 0;  ///< of the rows compared element by element
};

class GemmCheck {
 public:
  static constexpr int kReferenceRows = 8;  ///< the first, the last and some between
  static constexpr int kBlock = 128;        ///< channels of a signed sum

  /// Computes what compare() needs; the operands may change afterwards. Errors: kOutOfMemory, kDevice.
  static Result<GemmCheck> create(const GemmOperands& operands, int device, cudaStream_t stream);

  /// out[m, n], rows without gaps. Waits for the stream.
  Result<OutputVerdict> compare(const void* out) const;

 private:
  GemmCheck() = default;
  [[nodiscard]] std::int64_t blocks() const { return (operands_.n + kBlock - 1) / kBlock; }

  GemmOperands operands_;  ///< their sizes alone after create()
  cudaStream_t stream_ = nullptr;
  int rows_ = 0;                  ///< compared element by element
  DeviceMemory reference_;        ///< [rows, n] double
  DeviceMemory magnitude_;        ///< [rows, n] double: sums of |a w alpha|
  DeviceMemory projection_;       ///< [m, blocks] double: signed sums
  DeviceMemory rounding_;         ///< [m, blocks] double: what FP32 sums may be off
  mutable DeviceMemory verdict_;  ///< what the device found
};

}  // namespace pinch::cuda
