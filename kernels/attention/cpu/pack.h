// Keys, values and queries in the order that the kernels read them, quantised on the way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/attention/cpu/kernels.h"

namespace pinch::attention {

/// Rows of one head, dim contiguous.
struct Rows {
  const Bf16* data;
  std::int64_t count, stride;
  const Bf16* row(std::int64_t i) const { return data + i * stride; }
};

/// Largest magnitude; NaN or infinity where there is one.
inline float amax_of(const Rows& rows, std::int64_t dim) {
  std::uint32_t top = 0;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const Bf16* row = rows.row(i);
    for (std::int64_t c = 0; c < dim; ++c) {
      const std::uint32_t magnitude = row[c].bits & 0x7fffU;
      top = magnitude > top ? magnitude : top;
    }
  }
  return to_f32(Bf16{static_cast<std::uint16_t>(top)});
}

/// `x` as its e4m3 code stands for, times the scale.
inline Bf16 round_fp8(Bf16 x, float scale) {
  return to_bf16(to_f32(to_e4m3(to_f32(x) / scale)));
}

inline void put(Bf16 x, float* to) {
  *to = to_f32(x);
}
inline void put(Bf16 x, Bf16* to) {
  *to = x;
}

/// Rows as they are multiplied: exact, or rounded to e4m3 / `scale`. [dim] elements.
template <class T>
void pack_row(const Bf16* row, std::int64_t dim, QkType type, float scale, T* to) {
  if (type == QkType::kBf16) {
    for (std::int64_t c = 0; c < dim; ++c) put(row[c], to + c);
  } else {
    for (std::int64_t c = 0; c < dim; ++c) put(round_fp8(row[c], scale), to + c);
  }
}

inline constexpr std::int64_t kMostDim = 128;

/// Keys first .. first + columns as one panel: [dim][columns] floats or [dim / 2][columns] pairs; past the last, zeros.
inline void pack_keys(const Rows& keys, std::int64_t first, int columns, std::int64_t dim, QkType type, float scale,
                      float* to) {
  float row[kMostDim] = {};
  for (int j = 0; j < columns; ++j) {
    if (first + j < keys.count) {
      pack_row(keys.row(first + j), dim, type, scale, row);
    } else {
      std::fill(row, row + kMostDim, std::remove_reference_t<decltype(row[0])>{});
    }
    for (std::int64_t c = 0; c < dim; ++c) to[c * columns + j] = row[c];
  }
}
inline void pack_keys(const Rows& keys, std::int64_t first, int columns, std::int64_t dim, QkType type, float scale,
                      Bf16* to) {
  Bf16 row[kMostDim] = {};
  for (int j = 0; j < columns; ++j) {
    if (first + j < keys.count) {
      pack_row(keys.row(first + j), dim, type, scale, row);
    } else {
      std::fill(row, row + kMostDim, std::remove_reference_t<decltype(row[0])>{});
    }
    for (std::int64_t c = 0; c < dim; c += 2) std::memcpy(to + c * columns + j * 2, row + c, 4);
  }
}

/// 16 rows of V, one NVFP4 group a column, as they are multiplied: [16][dim]; past the last, zeros.
inline void load_values(const Rows& values, std::int64_t first, std::int64_t dim, PvType type, float factor,
                        Bf16 (*to)[kMostDim]) {
  for (int i = 0; i < kGroup; ++i) {
    if (first + i >= values.count) {
      std::fill(to[i], to[i] + kMostDim, Bf16{});
    } else if (type == PvType::kFp8) {
      const Bf16* row = values.row(first + i);
      for (std::int64_t c = 0; c < dim; ++c) to[i][c] = round_fp8(row[c], factor);
    } else {
      std::memcpy(to[i], values.row(first + i), static_cast<std::size_t>(dim) * sizeof(Bf16));
    }
  }
  if (type != PvType::kFp4) return;
  for (std::int64_t c = 0; c < dim; ++c) {
    float top = 0;
    for (int i = 0; i < kGroup; ++i) top = larger(detail::f32_from_bits((to[i][c].bits & 0x7fffU) << 16), top);
    const E4m3 scale = fp4_v_scale(top, factor);
    for (int i = 0; i < kGroup; ++i) {
      to[i][c] = to_bf16(fp4_value(fp4_v_code(to_f32(to[i][c]), scale, factor), scale));
    }
  }
}

/// 16 rows of V into panels of `columns` of dim: [dim / columns][padded][columns] floats, or [..][padded / 2][columns]
/// pairs of neighbouring keys. `factor`: fp8 the scale, fp4 the global factor.
inline void pack_values(const Rows& values, std::int64_t first, int columns, std::int64_t dim, std::int64_t padded,
                        PvType type, float factor, float* to) {
  Bf16 rows[kGroup][kMostDim];
  load_values(values, first, dim, type, factor, rows);
  for (std::int64_t block = 0; block < dim; block += columns) {
    for (int i = 0; i < kGroup; ++i) {
      float* out = to + block * padded + (first + i) * columns;
      for (int c = 0; c < columns; ++c) out[c] = to_f32(rows[i][block + c]);
    }
  }
}
inline void pack_values(const Rows& values, std::int64_t first, int columns, std::int64_t dim, std::int64_t padded,
                        PvType type, float factor, Bf16* to) {
  Bf16 rows[kGroup][kMostDim];
  load_values(values, first, dim, type, factor, rows);
  for (std::int64_t block = 0; block < dim; block += columns) {
    for (int i = 0; i < kGroup; i += 2) {
      Bf16* out = to + block * padded + (first + i) * columns;
      for (int c = 0; c < columns; ++c) {
        out[2 * c] = rows[i][block + c];
        out[2 * c + 1] = rows[i + 1][block + c];
      }
    }
  }
}

}  // namespace pinch::attention
