// Compiled for the device: every conversion of formats.h and the scale offsets of fp4.h, none behind a compiler option.
#include "pinch/fp4.h"

namespace pinch {

__global__ void convert_all(const float* in, float* out) {
  const float value = in[threadIdx.x];
  out[6 * threadIdx.x + 0] = to_f32(to_bf16(value));
  out[6 * threadIdx.x + 1] = to_f32(to_f16(value));
  out[6 * threadIdx.x + 2] = to_f32(to_e4m3(value));
  out[6 * threadIdx.x + 3] = to_f32(to_e5m2(value));
  out[6 * threadIdx.x + 4] = to_f32(to_e2m1(value));
  out[6 * threadIdx.x + 5] = to_f32(to_ue8m0(value));
}

__global__ void gather_scales(const std::uint8_t* swizzled, std::uint8_t* linear, std::int64_t columns) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = threadIdx.x;
  linear[scale_offset(ScaleLayout::kLinear, row, column, columns)] =
      swizzled[scale_offset(ScaleLayout::kSwizzled128x4, row, column, columns)];
}

}  // namespace pinch
