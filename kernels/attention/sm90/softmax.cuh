// Softmax of one consumer warpgroup's scores in registers. A thread has two rows, r = 16*(warp % 4) + lane/4 and r + 8,
// and of them the columns 8*n + 2*(lane % 4) + {0, 1}, as the matrix unit leaves them: s[4*n + 2*(row >= 8) + column].
// Four neighbouring lanes share a row.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/attention/numerics.h"
#include "kernels/attention/sm90/params.cuh"
#include "kernels/attention/sm90/traits.cuh"
#include "kernels/common/cuda/ptx/cvt.cuh"
#include "kernels/common/cuda/ptx/mov.cuh"

namespace pinch::attention::sm90 {

__device__ constexpr int row_of(int score) {
  return score / 2 % 2;
}

template <typename T>
class Softmax {
 public:
  static constexpr int kScores = T::kTileKv / 2;               // of a thread
  static constexpr int kFirst = T::kWritten * T::kStepScores;  // of them those that the first part reads
  static constexpr int kRest = kScores > kFirst ? kScores - kFirst : 1;
  using Scores = float[kScores];
  using Fragments = uint32_t[T::kSteps][4];

  __device__ __forceinline__ Softmax(const Params& params, float scale) : scale_(scale), threshold_(params.threshold) {}

  // Hides columns from `visible` on: of the thread's two rows, counted from its first column.
  static __device__ __forceinline__ void hide(Scores& s, const int (&visible)[2]) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      if (i / 4 * 8 + i % 2 >= visible[row_of(i)]) s[i] = -__builtin_huge_valf();
    }
  }

  // Moves the maxima to what this tile needs; `alpha` is what earlier sums are to be multiplied by.
  __device__ __forceinline__ void update(const Scores& s, float (&alpha)[2]) {
    // Two chains a row: one is bound by the latency of its own comparisons.
    float tops[2][2] = {{s[0], s[2]}, {s[1], s[3]}};
#pragma unroll
    for (int i = 0; i < kScores; ++i) tops[i % 2][row_of(i)] = fmaxf(tops[i % 2][row_of(i)], s[i]);
    float top[2] = {fmaxf(tops[0][0], tops[1][0]), fmaxf(tops[0][1], tops[1][1])};
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      top[row] = fmaxf(top[row], __shfl_xor_sync(0xFFFFFFFF, top[row], 1));
      top[row] = fmaxf(top[row], __shfl_xor_sync(0xFFFFFFFF, top[row], 2));
      const float m = next_max(max_[row], top[row] * scale_, threshold_);
      alpha[row] = m == max_[row] ? 1.0F : exp2_hardware(max_[row] - m);
      max_[row] = m;
      minus_[row] = kOffset - subtrahend(m);
      sum_[row] *= alpha[row];
    }
  }

  // The scores of the first part to probabilities, in place; of the others the exponents, for `finish`. NVFP4: to what
  // the codes and scales of P stand for.
  __device__ __forceinline__ void begin(Scores& s, float (&rest)[kRest]) {
    if constexpr (T::kPv == PvType::kFp4) {
#pragma unroll
      for (int step = 0; step < T::kSteps; ++step) quantize_groups(&s[step * T::kStepScores]);
    } else {
      begin_plain(s, rest);
    }
  }

  __device__ __forceinline__ void begin_plain(Scores& s, float (&rest)[kRest]) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const float x = fma(s[i], scale_, minus_[row_of(i)]);
      if (i < kFirst) {
        s[i] = exponential(x, i);
      } else {
        rest[i - kFirst] = x;
      }
    }
#pragma unroll
    for (int i = 0; i < kFirst; ++i) sum_[row_of(i)] += s[i];
  }

  static __device__ __forceinline__ void write(const Scores& s, Fragments& p) {
#pragma unroll
    for (int step = 0; step < T::kWritten; ++step) fragment(&s[step * T::kStepScores], p[step]);
    if constexpr (T::kRead > T::kWritten) {  // a demonstration of the fault: what is not written yet is NaN
#pragma unroll
      for (int step = T::kWritten; step < T::kRead; ++step)
        for (uint32_t& pair : p[step]) pair = 0x7FC07FC0;
    }
  }

  // The other part: exponentials and fragments.
  __device__ __forceinline__ void finish(float (&rest)[kRest], Fragments& p) {
#pragma unroll
    for (int step = T::kWritten; step < T::kSteps; ++step) {
      float* x = &rest[step * T::kStepScores - kFirst];
#pragma unroll
      for (int i = 0; i < T::kStepScores; ++i) x[i] = exponential(x[i], step * T::kStepScores + i);
#pragma unroll
      for (int i = 0; i < T::kStepScores; ++i) sum_[row_of(i)] += x[i];
      fragment(x, p[step]);
    }
  }

  // The whole row's sum, in every lane of the row.
  __device__ __forceinline__ float total(int row) const {
    float sum = sum_[row];
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
    return sum + __shfl_xor_sync(0xFFFFFFFF, sum, 2);
  }
  // Of a row whose total is `sum`.
  __device__ __forceinline__ float log_sum_exp(int row, float sum) const {
    return (max_[row] - kOffset + __log2f(sum)) * 0.693147181F;
  }

 private:
  // Of 16 keys, a group of NVFP4, this thread's four of each row. Linear and log as in numerics.h, but for the last
  // bits of ex2, of the reciprocal (linear) and of the exponent, which is one multiply-add here.
  __device__ __forceinline__ void quantize_groups(float* s) {
    float scale[2], fold[2], unit[2];
    if constexpr (T::kTile.quant == Quant::kLinear) {
#pragma unroll
      for (int i = 0; i < 8; ++i) s[i] = exponential(fma(s[i], scale_, minus_[row_of(i)]), i);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum_[row_of(i)] += s[i];
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float top = fmaxf(fmaxf(s[2 * row], s[2 * row + 1]), fmaxf(s[2 * row + 4], s[2 * row + 5]));
      top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFF, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFF, top, 2));
      if constexpr (T::kTile.quant == Quant::kLinear) {
        const float held = fmaxf(top, 0x1p-100F);
        scale[row] = held * kE4m3Max;
        fold[row] = __fdividef(kE2m1Max, held);
      } else {
        const float held = fmaxf(fma(top, scale_, minus_[row]), kSmallestLog2);
        scale[row] = exp2_hardware(held + kLog2E4m3Max);
        fold[row] = minus_[row] - (held - kLog2Six);
        unit[row] = scale[row] * (1.0F / (kE4m3Max * kE2m1Max));
      }
    }
    const uint32_t halves = ptx::cvt_f16x2_e4m3x2(ptx::cvt_e4m3x2(scale[1], scale[0]));
    const float2 stored = __half22float2(reinterpret_cast<const __half2&>(halves));
    if constexpr (T::kTile.quant == Quant::kLog) {
#pragma unroll
      for (int i = 0; i < 8; ++i) s[i] = exponential(fma(s[i], scale_, fold[row_of(i)]), i);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float part = (s[2 * row] + s[2 * row + 1]) + (s[2 * row + 4] + s[2 * row + 5]);
        sum_[row] = fma(part, unit[row], sum_[row]);
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float x = T::kTile.quant == Quant::kLinear ? s[i] * fold[row_of(i)] : s[i];
      s[i] = fp4_round(x) * (row_of(i) == 0 ? stored.x : stored.y);
    }
  }

  static constexpr float kOffset = T::kPv == PvType::kFp8 ? kFp8Offset : 0.0F;  // log2 of P's factor

  // kMixed takes turns along a thread's own keys: which keys they are differs from lane to lane.
  static __device__ __forceinline__ float exponential(float x, int score) {
    if constexpr (T::kTile.exp2 == Exp2::kMixed) {
      const int place = (score / 4 * 2 + score % 2) % kGroup;
      return by_polynomial(place, T::kTile.sixteenths) ? exp2_poly<3>(x) : exp2_hardware(x);
    } else {
      return exp2_of<T::kTile.exp2>(x);
    }
  }

  // A step's probabilities as wgmma's A. An e4m3 step takes 32 keys in the order in which the thread has them, which is
  // the order that prepare() gives V's keys.
  static __device__ __forceinline__ void fragment(const float* e, uint32_t (&a)[4]) {
    if constexpr (T::kPv == PvType::kFp8) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const float* x = e + 8 * half + 2 * row;
          a[2 * half + row] = ptx::mov_b32_halves(ptx::cvt_e4m3x2(x[1], x[0]), ptx::cvt_e4m3x2(x[5], x[4]));
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(e[2 * i], e[2 * i + 1]);
        a[i] = reinterpret_cast<const uint32_t&>(pair);
      }
    }
  }

  float scale_, threshold_;
  float max_[2] = {-__builtin_huge_valf(), -__builtin_huge_valf()};  // log2 units
  float minus_[2];
  float sum_[2] = {0, 0};  // of this thread's columns
};

}  // namespace pinch::attention::sm90
