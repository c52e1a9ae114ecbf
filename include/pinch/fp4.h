// 4-bit weights: the NVFP4 and MXFP4 block formats, quantised from FP32, dequantised exactly, scales in two layouts.
//
// A weight of row r and column c is  e2m1(code) * scale(r, c / group) * alpha:
//
//   format   group  scale   alpha              source
//   NVFP4     16    E4M3    1 / global scale   448 * 6 / amax(W) is the global scale
//   MXFP4     32    UE8M0   1                  OCP Microscaling Formats 1.0, section 5.3 and 6.3
//
// Codes are bytes [n, k / 2]: the low nibble is column 2i, the high nibble column 2i + 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pinch/formats.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch {

/// Where the scale of (row, scale column) lies.
enum class ScaleLayout : std::uint8_t {
  kLinear,         ///< [n, k / group], row-major
  kSwizzled128x4,  ///< tiles of 128 rows x 4 scale columns, 512 bytes each: the operand order of Blackwell's tensor
                   ///< cores
};
constexpr std::string_view to_string(ScaleLayout layout) {
  return layout == ScaleLayout::kLinear ? "linear" : "swizzled_128x4";
}

/// Weights in memory of the caller's: nothing is copied or owned.
struct Fp4View {
  Fp4Format format = Fp4Format::kNvfp4;
  std::int64_t n = 0;                    ///< rows, output channels
  std::int64_t k = 0;                    ///< columns, a multiple of group_size(format)
  const std::uint8_t* codes = nullptr;   ///< [n, k / 2]
  const std::uint8_t* scales = nullptr;  ///< scale_bytes(scale_layout, n, k / group_size(format)) bytes
  ScaleLayout scale_layout = ScaleLayout::kLinear;
  float alpha = 1.0F;
};

/// Weights that own their memory.
struct Fp4Matrix {
  Fp4Format format = Fp4Format::kNvfp4;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  ScaleLayout scale_layout = ScaleLayout::kLinear;
  float alpha = 1.0F;

  [[nodiscard]] Fp4View view() const { return {format, n, k, codes.data(), scales.data(), scale_layout, alpha}; }
};

/// Largest n or k: products of two and their padding stay far inside 64 bits.
inline constexpr std::int64_t kMaxFp4Dimension = 0x7fffffff;

/// Byte offset of the scale of (row, column) among `columns` scale columns.
/// Swizzled: tiles of 128 x 4 follow one another along the columns, then the rows; in a tile, row r is at
/// (r % 32) * 16 + (r / 32) * 4. Source: cuBLAS documentation, "1D block scaling factors layout".
PINCH_HD constexpr std::int64_t scale_offset(ScaleLayout layout, std::int64_t row, std::int64_t column,
                                             std::int64_t columns) {
  if (layout == ScaleLayout::kLinear) return row * columns + column;
  const std::int64_t tile = row / 128 * ((columns + 3) / 4) + column / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
}

/// Bytes of `rows` x `columns` scales: the swizzle pads rows to 128 and columns to 4.
PINCH_HD constexpr std::int64_t scale_bytes(ScaleLayout layout, std::int64_t rows, std::int64_t columns) {
  if (layout == ScaleLayout::kLinear) return rows * columns;
  return (rows + 127) / 128 * ((columns + 3) / 4) * 512;
}

/// Refuses a shape that no Fp4 matrix has: n or k outside 1 .. kMaxFp4Dimension, k not a multiple of the group.
Result<void> validate_fp4_shape(Fp4Format format, std::int64_t n, std::int64_t k);

/// Checks what kernels rely on: the shape, both pointers, a finite alpha, and every scale finite, not negative (NVFP4:
/// sign bit clear) and small enough that 6 * scale is finite in bf16 (MXFP4: at most 2^125). Padding of the swizzle is
/// not read. Errors: kInvalidArgument for the shape and pointers, kCorrupt with row and scale column for a scale.
Result<void> validate(const Fp4View& weights);

/// Quantises w [n, k], row-major, with linear scales.
///   NVFP4: global = 448 * 6 / amax(w), alpha = 1 / global; the scale of a group is e4m3(amax(group) * global / 6) and
///   a code
///          e2m1(w * global / scale), each operation rounded to FP32. A group whose scale rounds to zero becomes zeros.
///   MXFP4: the scale of a group is 2^(floor(log2(amax(group))) - 2), at least 2^-127, and a code e2m1(w / scale): the
///          largest element lands in [4, 8) scales, and what is above 6 saturates.
/// A group of zeros has the smallest scale (NVFP4 0, MXFP4 2^-127); a tensor of zeros has alpha 1. Zeros keep their
/// sign. Errors: the shape, w of the wrong size, a NaN or infinity, named with row and column. Source: OCP MX 1.0,
/// section 6.3; the NVFP4 recipe of public checkpoints (docs/design/formats.md).
Result<Fp4Matrix> quantize_fp4(std::span<const float> w, std::int64_t n, std::int64_t k, Fp4Format format);

// The same in row blocks, for tensors that should not be in memory whole: amax over all blocks, the global scale from
// it, then each block. Any split into whole rows gives the bytes of quantize_fp4.

/// Largest magnitude of whole rows of k columns. `first_row` only places the error. Errors: a NaN or infinity.
Result<float> finite_amax(std::span<const float> rows, std::int64_t k, std::int64_t first_row = 0);

/// Global scale of a tensor of this largest magnitude; alpha is its reciprocal. 1 for MXFP4 and for a tensor of zeros;
/// at most 2^126, so that alpha is a normal number (tensors below 8e-36 lose precision rather than turn to NaN).
float fp4_global_scale(Fp4Format format, float amax);

/// Quantises whole rows into codes [rows, k / 2] and linear scales [rows, k / group]. Errors: k, sizes that disagree, a
/// NaN or infinity (the outputs are then undefined).
Result<void> quantize_fp4_rows(Fp4Format format, std::int64_t k, float global_scale, std::span<const float> rows,
                               std::span<std::uint8_t> codes, std::span<std::uint8_t> scales,
                               std::int64_t first_row = 0);

/// Row `row` as code * scale, exact in bf16, without alpha: what kernels multiply. `out` has k elements. The view must
/// be valid (validate) and the row inside it.
void dequantize_row(const Fp4View& weights, std::int64_t row, std::span<Bf16> out);

/// Row `row` as code * scale * alpha in FP32, rounded once.
void dequantize_row(const Fp4View& weights, std::int64_t row, std::span<float> out);

/// Linear scales [rows, columns] to the 128x4 swizzle (padding 0), and back. Errors: sizes that disagree.
Result<std::vector<std::uint8_t>> swizzle_scales(std::span<const std::uint8_t> linear, std::int64_t rows,
                                                 std::int64_t columns);
Result<std::vector<std::uint8_t>> unswizzle_scales(std::span<const std::uint8_t> swizzled, std::int64_t rows,
                                                   std::int64_t columns);

}  // namespace pinch
