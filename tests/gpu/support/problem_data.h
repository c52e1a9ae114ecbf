// One problem's data on the device: random activations and canonical weights, the prepared weights, and the FP64
// reference computed from the canonical ones.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/gemm_bf16_fp4/sm90/prepared.h"
#include "tests/gpu/support/device_buffer.h"

namespace pinch::gpu_test {

using gemm_bf16_fp4::sm90::Format;

struct ProblemShape {
  Format format;
  int m, n, k;
  int a_stride, out_stride;
  bool swizzled_scales = false;  // of the canonical weights
  bool nan_and_inf = false;      // a NaN in row 1 of the activations, an infinity in row 2
};

const char* name(Format format);

inline constexpr float kAlpha = 0.37f;

class ProblemData {
 public:
  // Exits with an error if the weights are refused, or (up to 2^22 weights) if the host prepares them differently.
  ProblemData(const ProblemShape& shape, std::uint64_t seed);

  // expected[i, n] for row i * m_step of the first m rows.
  void compute_reference(int m, int m_step);

  ProblemShape shape;
  DeviceBuffer<__nv_bfloat16> a;      // [m, a_stride]; NaN between rows
  DeviceBuffer<__nv_bfloat16> dense;  // [n, k], exact
  DeviceBuffer<std::uint8_t> codes, scales;
  int acc_exponent = 0;
  DeviceBuffer<double> expected;
};

}  // namespace pinch::gpu_test
