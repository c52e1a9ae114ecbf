// Inputs and the checker of the GEMM tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm_bf16_fp4/tactic.h"
#include "pinch/gemm.h"

namespace pinch::test {

inline std::vector<Bf16> random_activations(std::int64_t rows, std::int64_t lda, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> a(static_cast<std::size_t>(rows * lda));
  for (Bf16& x : a) x = to_bf16(normal(bits));
  return a;
}

/// Every code occurs; scales span their whole finite range of normal use, zero among them.
inline Fp4Matrix random_weights(Fp4Format format, std::int64_t n, std::int64_t k, std::uint32_t seed) {
  std::mt19937 bits(seed);
  Fp4Matrix w;
  w.format = format;
  w.n = n;
  w.k = k;
  w.codes.resize(static_cast<std::size_t>(n * k / 2));
  for (auto& code : w.codes) code = static_cast<std::uint8_t>(bits());
  w.scales.resize(static_cast<std::size_t>(n * (k / group_size(format))));
  for (auto& scale : w.scales) {
    scale = static_cast<std::uint8_t>(format == Fp4Format::kNvfp4 ? bits() % 0x7f : 110 + bits() % 32);
  }
  w.alpha = format == Fp4Format::kNvfp4 ? 0.0137F : 1.0F;
  return w;
}

/// Exact result and the sum of magnitudes that error bounds scale with.
struct Expected {
  std::int64_t m, n, k;
  std::vector<double> value, magnitude;
};
inline Expected expect(const Fp4View& w, const std::vector<Bf16>& a, std::int64_t lda, std::int64_t m) {
  Expected e{m, w.n, w.k, std::vector<double>(static_cast<std::size_t>(m * w.n)), {}};
  e.magnitude.resize(e.value.size());
  if (!reference_gemm(w, a.data(), lda, m, e.value.data(), w.n, e.magnitude.data()).ok()) std::abort();
  return e;
}

// FP32 sums against exact ones. A term passes through at most 2 k + 2 roundings, each of a partial sum s with an error
// of at most u |s|, u = 2^-24, and a standard deviation below 0.6 u |s|; |s| stays below the magnitude. Their sum is
// within seven standard deviations, 4 u sqrt(2 k + 2) of the magnitude, whatever the order.
inline double sum_tolerance(std::int64_t k) {
  return 4 * 0x1p-24 * std::sqrt(2 * static_cast<double>(k) + 2);
}
// Half a unit in the last place of bf16, relative; and half its smallest subnormal.
inline constexpr double kBf16Half = 0x1p-8, kBf16Tiny = 0x1p-134;

/// The worst element's error as a share of what it may be (at most 1 passes), or infinity where infinities and NaNs
/// differ in kind or place.
inline double worst_error(const Expected& e, const float* out, std::int64_t ldo, OutputType type) {
  double worst = 0;
  for (std::int64_t i = 0; i < e.m; ++i) {
    for (std::int64_t j = 0; j < e.n; ++j) {
      const auto at = static_cast<std::size_t>(i * e.n + j);
      const double want = e.value[at], got = out[i * ldo + j];
      if (!std::isfinite(want) || !std::isfinite(got)) {
        const bool same = std::isnan(want) ? std::isnan(got) : want == got;
        if (!same) return std::numeric_limits<double>::infinity();
        continue;
      }
      double allowed = sum_tolerance(e.k) * e.magnitude[at] + 0x1p-149;
      if (type == OutputType::kBf16) allowed += kBf16Half * (std::fabs(want) + allowed) + kBf16Tiny;
      worst = std::max(worst, std::fabs(got - want) / allowed);
    }
  }
  return worst;
}

/// Memory with a known pattern on both sides and, until written, a NaN in every element.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kZone, std::byte{0xff}) {}
  std::byte* data() { return aligned() + kZone / 2; }
  [[nodiscard]] bool intact() {
    const auto untouched = [](std::byte b) { return b == std::byte{0xff}; };
    return std::all_of(memory_.data(), data(), untouched) &&
           std::all_of(data() + bytes_, memory_.data() + memory_.size(), untouched);
  }

 private:
  static constexpr std::size_t kZone = 256;
  std::byte* aligned() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
  }
  std::size_t bytes_;
  std::vector<std::byte> memory_;
};

/// One run into poisoned memory; rows widened to float. `intact` tells whether everything around the result, the gaps
/// between its rows and the bytes beside the workspace kept their pattern.
struct Outcome {
  std::vector<float> out;  // [m, n]
  bool intact = false;
};
inline Result<Outcome> run_poisoned(const PreparedWeights& weights, const std::vector<Bf16>& a, std::int64_t lda,
                                    std::int64_t m, const GemmOptions& options, std::int64_t ldo) {
  PINCH_ASSIGN(plan, plan_gemm(weights, m, options));
  const std::int64_t n = weights.n();
  const std::size_t element = options.output == OutputType::kBf16 ? 2 : 4;
  Guarded out(static_cast<std::size_t>((m - 1) * ldo + n) * element);
  Guarded workspace(plan.workspace_bytes());
  PINCH_TRY(run_gemm(plan, a.data(), lda, out.data(), ldo, {workspace.data(), plan.workspace_bytes()}));
  Outcome outcome{std::vector<float>(static_cast<std::size_t>(m * n)), out.intact() && workspace.intact()};
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < ldo && (i + 1 < m || j < n); ++j) {
      const std::byte* from = out.data() + static_cast<std::size_t>(i * ldo + j) * element;
      if (j >= n) {
        outcome.intact =
            outcome.intact && std::all_of(from, from + element, [](std::byte b) { return b == std::byte{0xff}; });
        continue;
      }
      float& to = outcome.out[static_cast<std::size_t>(i * n + j)];
      if (options.output == OutputType::kBf16) {
        Bf16 half;
        std::memcpy(&half, from, 2);
        to = to_f32(half);
      } else {
        std::memcpy(&to, from, 4);
      }
    }
  }
  return outcome;
}

}  // namespace pinch::test
