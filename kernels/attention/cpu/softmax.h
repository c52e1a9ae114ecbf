// The softmax of one row in plain loops, straight from numerics.h; inlined into each instruction set's own function,
// where the compiler vectorises it for that set.
#pragma once

#include <cstring>

#include "kernels/attention/cpu/kernels.h"
#include "kernels/common/cpu/target.h"

namespace pinch::attention {

PINCH_INLINE float scale_max_row(float* s, int visible, int count, float scale) {
  constexpr float kHidden = -__builtin_huge_valf();
  float top[kStep];
  for (float& lane : top) lane = kHidden;
  for (int first = 0; first < count; first += kStep) {
    for (int i = 0; i < kStep; ++i) {
      const float scaled = s[first + i] * scale;
      const float score = first + i < visible ? scaled : kHidden;
      s[first + i] = score;
      top[i] = larger(score, top[i]);
    }
  }
  for (int half = kStep / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) top[i] = larger(top[i], top[i + half]);
  }
  return top[0];
}

PINCH_INLINE float sum_of_lanes(float* lanes) {
  for (int half = kStep / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

PINCH_INLINE void store_element(float value, float* to) {
  *to = value;
}
PINCH_INLINE void store_element(float value, Bf16* to) {
  *to = to_bf16(value);
}

template <Exp2 kExp2, PvType kPv, class T>
PINCH_INLINE float plain_row(float* s, int count, float m, T* p) {
  const float minus = subtrahend(m);
  float sum[kStep] = {};
  for (int first = 0; first < count; first += kStep) {
    float e[kStep];
    for (int i = 0; i < kStep; ++i) e[i] = exp2_of<kExp2>(s[first + i] - minus);
    for (int i = 0; i < kStep; ++i) sum[i] += e[i];
    for (int i = 0; i < kStep; ++i) {
      store_element(kPv == PvType::kBf16 ? to_f32(to_bf16(e[i])) : to_f32(quantize_fp8(e[i])), p + first + i);
    }
  }
  return sum_of_lanes(sum);
}

/// The linear form as a GPU has it: P first, then each group's maximum, its division and the scaling pass.
template <Exp2 kExp2, class T>
PINCH_INLINE float linear_row(float* s, int count, float m, T* p) {
  const float minus = subtrahend(m);
  float sum[kStep] = {};
  for (int first = 0; first < count; first += kStep) {
    float* e = s + first;
    for (int i = 0; i < kStep; ++i) e[i] = exp2_of<kExp2>(e[i] - minus);
    for (int i = 0; i < kStep; ++i) sum[i] += e[i];
    const Fp4Scale group = fp4_linear_scale(group_max(e));
    for (int i = 0; i < kStep; ++i) store_element(fp4_value(fp4_linear_code(e[i], group), group.scale), p + first + i);
  }
  return sum_of_lanes(sum);
}

template <Exp2 kExp2, class T>
PINCH_INLINE float log_row(float* s, int count, float m, T* p) {
  const float minus = subtrahend(m);
  float sum[kStep] = {};
  for (int first = 0; first < count; first += kStep) {
    const Fp4LogScale group = fp4_log_scale<kExp2>(group_max(s + first) - minus);
    float e[kStep];
    for (int i = 0; i < kStep; ++i) e[i] = exp2_of<kExp2>(s[first + i] - minus - group.fold);
    for (int i = 0; i < kStep; ++i) sum[i] = fma(e[i], group.unit, sum[i]);
    for (int i = 0; i < kStep; ++i) store_element(fp4_value(fp4_log_code(e[i]), group.scale), p + first + i);
  }
  return sum_of_lanes(sum);
}

}  // namespace pinch::attention
