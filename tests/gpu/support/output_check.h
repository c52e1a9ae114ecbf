// Whether an output is right: poisoned before, compared with the FP64 reference after, with guards around it, between
// its rows and behind the workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/gemm_bf16_fp4/sm90/workspace.h"
#include "tests/gpu/support/device_buffer.h"

namespace pinch::gpu_test {

// An output [m, stride] of bf16 or FP32, with guards before and after it.
class GuardedOutput {
 public:
  GuardedOutput(int m, int n, int stride, bool f32);
  void poison();  // every byte 0xFF: a NaN in either type
  void* data() const { return bytes_.data() + kGuard * element_bytes_; }
  void* raw() const { return bytes_.data(); }
  std::size_t raw_bytes() const { return bytes_.size(); }

  static constexpr std::int64_t kGuard = 1024;  // elements
  const int m, n, stride;
  const bool f32;

 private:
  std::size_t element_bytes_;
  DeviceBuffer<std::uint8_t> bytes_;
};

// Flags that kernels leave zero, partial sums and a guard.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(std::size_t most_bytes);
  // Before a launch that takes `bytes`, `flag_bytes` of them flags: poisons the partial sums and the guard after them.
  void poison(std::size_t bytes, std::size_t flag_bytes = gemm_bf16_fp4::sm90::kFlagBytes);
  void* data() const { return bytes_.data(); }

  static constexpr std::size_t kGuardBytes = 4096;

 private:
  friend class OutputChecker;
  DeviceBuffer<std::uint8_t> bytes_;
  std::size_t used_bytes_ = 0;
  std::size_t flag_bytes_ = 0;
};

struct OutputVerdict {
  double relative_l2 = 0;
  std::string fault;  // empty: right
};

// What the device counts for one check.
struct OutputCounts {
  double error2, norm2;
  unsigned long long wrong_class;  // not finite where it should be, or the reverse
  unsigned long long outside;      // guards written
  unsigned long long flags;        // flag bytes not zero
  unsigned long long workspace;    // bytes written behind the workspace
  unsigned long long hash;
};

class OutputChecker {
 public:
  OutputChecker();
  // expected: [ceil(m / m_step), n]; rows between those are only checked to be finite. limit: of the relative L2 error.
  OutputVerdict check(const GuardedOutput& out, const double* expected, int m_step, double limit,
                      const GuardedWorkspace& workspace);
  // Of every byte of the output and its guards.
  std::uint64_t hash(const GuardedOutput& out);

 private:
  DeviceBuffer<OutputCounts> counts_;
};

// The checker on outputs with one fault each. Returns how many it misses, and says which.
int planted_faults_missed();

}  // namespace pinch::gpu_test
