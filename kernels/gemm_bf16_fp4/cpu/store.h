// The epilogue: sums times alpha, rounded once to the output type.
#pragma once

#include <cstdint>

#include "pinch/formats.h"
#include "pinch/gemm_problem.h"

namespace pinch::detail {

// Inlined into each instruction set's own function, where the compiler vectorises it for that set.
[[gnu::always_inline]] inline void store_tile(const float* sums, int tile_n, int rows, int columns, float alpha,
                                              OutputType type, void* out, std::int64_t ldo) {
  for (int r = 0; r < rows; ++r) {
    const float* row = sums + static_cast<std::int64_t>(r) * tile_n;
    if (type == OutputType::kF32) {
      float* to = static_cast<float*>(out) + r * ldo;
      for (int c = 0; c < columns; ++c) to[c] = row[c] * alpha;
    } else {
      Bf16* to = static_cast<Bf16*>(out) + r * ldo;
      for (int c = 0; c < columns; ++c) to[c] = to_bf16(row[c] * alpha);
    }
  }
}

}  // namespace pinch::detail
