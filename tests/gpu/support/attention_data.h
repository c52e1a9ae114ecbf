// One attention problem's data on the device: random inputs in arrays with NaNs between and around their rows, guarded
// outputs, and what they should be, in FP64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention/sm90/backend.h"
#include "tests/gpu/support/device_buffer.h"

namespace pinch::gpu_test {

struct AttentionShape {
  AttentionProblem problem;
  bool variable = false;      // lengths differ from sequence to sequence; one may be 0
  bool heads_inside = false;  // [batch, rows, heads, dim] in memory, not [batch, heads, rows, dim]
  int row_padding = 0;        // elements between rows, of 8
  float sigma = 1;            // of the scores
  bool nan_past_end = false;  // with variable lengths: what follows the keys and values of each sequence is NaN
  // Every third query's scores are minus infinity, and every fifth key's and the last 130's (qk = fp8: 1e20 times
  // 1e20, which overflows where scores are scaled). Not with variable lengths.
  bool minus_infinity = false;
  bool raw_workspace = false;  // not written before preparation is, so that initcheck sees what that leaves out
};

struct AttentionVerdict {
  double relative_l2 = 0;  // of O against `expected`
  double lse_error = 0;    // largest
  std::string fault;       // empty: right
};

class AttentionData {
 public:
  AttentionData(const AttentionShape& shape, std::uint64_t seed);

  /// Inputs and outputs; every byte of the outputs is poisoned first.
  attention::sm90::LaunchCall call();
  void poison();

  /// O and log-sum-exp in FP64 with nothing rounded.
  void compute_reference();
  /// What a kernel of this tile computes, each rounding of P and V included, sums in FP64. The tactic's threshold is
  /// taken into account too.
  void compute_emulation(const attention::sm90::Tactic& tactic);

  /// The outputs against what was computed last. Limits: of the relative L2 error of O, of any log-sum-exp.
  AttentionVerdict check(double limit, double lse_limit);
  /// Of every byte of O, its guards and the log-sum-exp.
  std::uint64_t hash();

  /// One element of O or byte of the guard changed, for the check of the check. place: 0 an element, 1 a guard before,
  /// 2 between rows or after, 3 a log-sum-exp, 4 an element left poisoned.
  void plant(int place);

  const AttentionShape shape;

 private:
  struct Layout {
    std::int64_t batch, head, row, extent;
  };
  Layout layout_of(std::int64_t rows, std::int64_t heads, std::int64_t total, bool inputs) const;

  Layout q_layout_, kv_layout_, o_layout_;
  std::vector<std::int32_t> cu_q_, cu_kv_;
  DeviceBuffer<std::int32_t> device_cu_q_, device_cu_kv_;
  DeviceBuffer<std::uint16_t> q_, k_, v_;
  DeviceBuffer<std::uint8_t> o_, workspace_;
  DeviceBuffer<float> lse_;
  DeviceBuffer<double> expected_, expected_lse_;  // [batch, heads, seq, dim], [batch, heads, seq]
  DeviceBuffer<std::uint64_t> counts_;
};

}  // namespace pinch::gpu_test
