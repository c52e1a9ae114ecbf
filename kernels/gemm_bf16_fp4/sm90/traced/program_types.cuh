// What program.cuh and its two kernels share.
#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/common/cuda/traced_program.cuh"
#include "kernels/gemm_bf16_fp4/sm90/instances.h"
#include "kernels/gemm_bf16_fp4/sm90/traced/names.h"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

constexpr Format kFormat = Format::PINCH_FORMAT;
constexpr bool kF32 = OutputType::PINCH_OUTPUT == OutputType::kF32;
using Output = std::conditional_t<kF32, float, __nv_bfloat16>;

constexpr int kAccExponent = kFormat == Format::kNvfp4 ? kNvfp4AccExponent : mxfp4_acc_exponent(130);

struct Call {
  const __nv_bfloat16* a;
  const std::uint8_t *codes, *scales;
  void *out, *workspace;
};

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90
