// The problem a bf16 x FP4 matrix product solves: shape and types of one call.
#pragma once

#include <cstdint>
#include <string_view>

#include "pinch/result.h"

namespace pinch {

/// Storage of 4-bit weights: E2M1 codes with one scale a group of columns.
enum class Fp4Format : std::uint8_t {
  kNvfp4,  ///< an E4M3 scale per 16 columns and one FP32 factor a tensor; 4.5 bits a weight
  kMxfp4,  ///< a UE8M0 scale per 32 columns; 4.25 bits a weight
};

/// Columns that share one scale.
constexpr std::int64_t group_size(Fp4Format format) {
  return format == Fp4Format::kNvfp4 ? 16 : 32;
}
constexpr std::string_view to_string(Fp4Format format) {
  return format == Fp4Format::kNvfp4 ? "nvfp4" : "mxfp4";
}

enum class OutputType : std::uint8_t { kBf16, kF32 };
constexpr std::string_view to_string(OutputType type) {
  return type == OutputType::kBf16 ? "bf16" : "f32";
}

/// out[m, n] = (a[m, k] @ dequant(b)[n, k]^T) * alpha.
struct GemmProblem {
  std::int64_t m = 0;  ///< rows of the activations
  std::int64_t n = 0;  ///< output channels, rows of the weights
  std::int64_t k = 0;  ///< columns of both, a multiple of the group size
  Fp4Format format = Fp4Format::kNvfp4;
  OutputType output = OutputType::kBf16;

  friend bool operator==(const GemmProblem&, const GemmProblem&) = default;
};

/// Whether the sizes can be computed with: m, n, k at least 1 and each of m*n, m*k, n*k at most 2^60 elements, so that
/// no count of bytes overflows. Divisibility is a matter of the kernel (TacticFamily::illegal). Errors:
/// kInvalidArgument, naming the size.
Result<void> validate(const GemmProblem& problem);

}  // namespace pinch
