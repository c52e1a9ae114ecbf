// The NVFP4 quantiser of P on a device: what the kernel's own softmax makes of rows of scores, and every 2^x that the
// exponential unit can be asked for beside the host's.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/numerics.h"

namespace pinch::gpu_test {

inline constexpr int kRowKeys = 128;  // one key tile, eight groups

/// How far ex2.approx.ftz.f32 may be from the correctly rounded 2^x, in units in the last place (PTX ISA; the CUDA C++
/// guide says what such a number is from): half a unit more from the exact one.
inline constexpr int kEx2Units = 2;
inline constexpr double kEx2Ulps = kEx2Units + 0.5;

/// Codes of 2^x in one format over all x: how many differ, and whose exponential is past the tie between the two.
struct CodeDifferences {
  unsigned long long codes = 0;        // compared
  unsigned long long by_device = 0;    // the device's 2^x is past the tie, which lies within kEx2Ulps of the exact one
  unsigned long long by_host = 0;      // the host's is, and the tie lies within kPolyError of degree 5
  unsigned long long unexplained = 0;  // neither
};
struct AllExponentials {
  CodeDifferences e2m1;                    // x up to log2 6: codes
  CodeDifferences e4m3;                    // x up to log2 448: scales of groups, and P of pv = fp8
  int device_units = 0;                    // largest distance of the device's from the correctly rounded
  double device_ulps = 0, host_error = 0;  // largest errors: units in the last place, relative
  unsigned long long conversions = 0;      // values that cvt.e4m3x2 or fp4_round round to another code than the host's
};
/// A fault to be found: 2^x times `factor`; the e2m1 code at the x of these bits one more than it is.
struct ExponentialFault {
  float factor = 1;
  std::uint32_t flipped = 0xFFFFFFFF;
};
/// Every FP32 x from -126 to 8.81, the subnormal ones too.
AllExponentials compare_all_exponentials(const ExponentialFault& fault = {});

/// 2^x by the exponential unit.
std::vector<float> exponentials(const std::vector<float>& x);
/// 2^x of degree 5 as the device computes it: to be the host's to the bit.
std::vector<float> polynomials(const std::vector<float>& x);

/// What the softmax of the kernel of this form makes of rows of kRowKeys scores: code * scale of each key.
std::vector<float> quantised_rows(const std::vector<float>& scores, float scale, attention::Quant quant);

}  // namespace pinch::gpu_test
