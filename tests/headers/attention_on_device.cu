// Compiled for the device: the numerics of attention, none behind a compiler option.
#include "kernels/attention/numerics.h"

namespace pinch::attention {

__global__ void quantize_all(const float* x, float* out, PvType pv, float threshold) {
  const float value = x[threadIdx.x];
  const float top = next_max(group_max(x), group_max(x + kGroup), threshold);
  const float difference = value - subtrahend(top);
  const Fp4Scale linear = fp4_linear_scale(exp2_of<Exp2::kPoly4>(top));
  const Fp4LogScale log = fp4_log_scale<Exp2::kHardware>(top);
  float* to = out + 6 * threadIdx.x;
  to[0] = fp4_value(fp4_linear_code(exp2_of<Exp2::kPoly5>(difference), linear), linear.scale);
  to[1] = fp4_value(fp4_log_code(exp2_of<Exp2::kMixed, 4>(difference - log.fold, threadIdx.x % kGroup)), log.scale);
  to[2] = to_f32(quantize_fp8(exp2_of<Exp2::kPoly3>(difference)));
  to[3] = fp8_scale(top);
  to[4] = p_offset(pv) + headroom_log2(pv);
  to[5] = log.unit;
}

}  // namespace pinch::attention
