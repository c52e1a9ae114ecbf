// Packing of activations: a transpose to the order in which inner kernels broadcast them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "pinch/formats.h"

namespace pinch::detail {

// Inlined into each instruction set's own function, where the compiler vectorises them for that set.

/// fp32: [padded_k][tile_m]. Columns in blocks, so that the scattered side stays in the first-level cache.
[[gnu::always_inline]] inline void pack_f32(const Bf16* a, std::int64_t lda, int rows, int tile_m, std::int64_t k,
                                            std::int64_t padded_k, void* packed) {
  auto* out = static_cast<float*>(packed);
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t first = 0; first < k; first += kBlock) {
    const std::int64_t last = std::min(first + kBlock, k);
    for (int r = 0; r < tile_m; ++r) {
      if (r < rows) {
        for (std::int64_t p = first; p < last; ++p) out[p * tile_m + r] = to_f32(a[r * lda + p]);
      } else {
        for (std::int64_t p = first; p < last; ++p) out[p * tile_m + r] = 0;
      }
    }
  }
  std::memset(out + k * tile_m, 0, static_cast<std::size_t>((padded_k - k) * tile_m) * sizeof(float));
}

/// bf16 pairs: [padded_k / 2][tile_m].
[[gnu::always_inline]] inline void pack_pairs(const Bf16* a, std::int64_t lda, int rows, int tile_m, std::int64_t k,
                                              std::int64_t padded_k, void* packed) {
  auto* out = static_cast<std::uint32_t*>(packed);
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t first = 0; first < k / 2; first += kBlock) {
    const std::int64_t last = std::min(first + kBlock, k / 2);
    for (int r = 0; r < tile_m; ++r) {
      for (std::int64_t p = first; p < last; ++p) {
        std::uint32_t pair = 0;
        if (r < rows) std::memcpy(&pair, a + r * lda + 2 * p, 4);
        out[p * tile_m + r] = pair;
      }
    }
  }
  std::memset(out + k / 2 * tile_m, 0, static_cast<std::size_t>((padded_k - k) / 2 * tile_m) * 4);
}

}  // namespace pinch::detail
