// Preparing weights: from the canonical layout (codes [n, k/2], low nibble = even column; scales linear or in the 128x4
// swizzle) to prepared.h's. The host and the device version call the same functions for each output word, so their
// results are equal bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_bf16_fp4/sm90/prepared.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// Canonical weights. NVFP4: E4M3 scales, one per 16 columns; MXFP4: UE8M0, one per 32.
struct CanonicalWeights {
  const std::uint8_t* codes;   // [n, k/2]
  const std::uint8_t* scales;  // [n, k/group], or the 128x4 swizzle of it
  int n;                       // any multiple of 8
  int k;                       // any multiple of 32
  Format format;
  bool swizzled_scales;
};

/// What preparation found out about the scales; on the device it is filled by the kernels and copied back by the
/// caller.
struct PrepareReport {
  std::int32_t nan_scales;       // count
  std::int32_t negative_scales;  // count (NVFP4)
  std::int32_t max_ue8m0;        // over groups with a nonzero code (MXFP4); -1 when there is none
  std::int32_t min_ue8m0;        // likewise; 256 when there is none
};

enum class PrepareStatus { kOk, kBadShape, kNanScale, kNegativeScale, kScaleSpan };

PINCH_HOST_DEVICE PrepareStatus prepare_status(Format f, const PrepareReport& r) {
  if (r.nan_scales > 0) return PrepareStatus::kNanScale;
  if (r.negative_scales > 0) return PrepareStatus::kNegativeScale;
  if (f == Format::kMxfp4 && r.max_ue8m0 >= 0 && r.max_ue8m0 - r.min_ue8m0 > kMxfp4MaxSpan)
    return PrepareStatus::kScaleSpan;
  return PrepareStatus::kOk;
}

/// Name of a refusal, with what is allowed.
inline const char* describe(PrepareStatus s) {
  switch (s) {
    case PrepareStatus::kOk:
      return "ok";
    case PrepareStatus::kBadShape:
      return "n is not a positive multiple of 8, or k not a positive multiple of 32";
    case PrepareStatus::kNanScale:
      return "a scale is NaN";
    case PrepareStatus::kNegativeScale:
      return "an NVFP4 scale is negative";
    case PrepareStatus::kScaleSpan:
      return "MXFP4 scales of nonzero groups span more than 2^120";
  }
  return "unknown";
}

PINCH_HOST_DEVICE bool prepare_shape_ok(int n, int k) {
  return n >= 8 && n % 8 == 0 && k >= 32 && k % 32 == 0;
}

/// Exponent of the accumulator: out = acc * 2^this * alpha.
PINCH_HOST_DEVICE int acc_exponent(Format f, int max_ue8m0) {
  if (f == Format::kNvfp4) return kNvfp4AccExponent;
  return mxfp4_acc_exponent(max_ue8m0 < 0 ? 127 : max_ue8m0);
}

// ---- shared per-element logic ---------------------------------------------------------------------------------------

PINCH_HOST_DEVICE std::uint32_t canonical_scale(const CanonicalWeights& w, int row, int group) {
  const int groups = w.k / group_size(w.format);
  const std::size_t at = w.swizzled_scales ? swizzled_scale_offset(row, group, (groups + 3) / 4 * 4)
                                           : static_cast<std::size_t>(row) * static_cast<std::size_t>(groups) +
                                                 static_cast<std::size_t>(group);
  return w.scales[at];
}

/// Whether every code of a group is a zero of either sign.
PINCH_HOST_DEVICE bool group_is_zero(const CanonicalWeights& w, int row, int group) {
  const int bytes = group_size(w.format) / 2;
  const std::uint8_t* c = w.codes + static_cast<std::size_t>(row) * static_cast<std::size_t>(w.k / 2) +
                          static_cast<std::size_t>(group * bytes);
  std::uint32_t any = 0;
  for (int i = 0; i < bytes; ++i) any |= c[i] & 0x77u;
  return any == 0;
}

/// The code stored for an element: 0 in the padding, a signed zero where an NVFP4 scale is zero.
PINCH_HOST_DEVICE std::uint32_t stored_code(const CanonicalWeights& w, int row, int col) {
  if (row >= w.n || col >= w.k) return 0;
  const std::uint32_t byte =
      w.codes[static_cast<std::size_t>(row) * static_cast<std::size_t>(w.k / 2) + static_cast<std::size_t>(col / 2)];
  const std::uint32_t code = col % 2 ? byte >> 4 : byte & 15u;
  if (w.format == Format::kNvfp4 && (canonical_scale(w, row, col / 16) & 0x7fu) == 0) return code & 8u;
  return code;
}

/// Word `block` of the 16 bytes that thread `thread` of tile (row_tile, col_tile) owns.
PINCH_HOST_DEVICE std::uint32_t prepared_code_word(const CanonicalWeights& w, int row_tile, int col_tile, int thread,
                                                   int block) {
  const int row = row_tile * kTileRows + thread / 32 * 16 + thread % 32 / 4;
  const int col = col_tile * kTileCols + block * 16 + thread % 4 * 2;
  std::uint32_t word = 0;
  for (int a = 0; a < 4; ++a)
    for (int h = 0; h < 2; ++h) word |= place_code(stored_code(w, row + a % 2 * 8, col + a / 2 * 8 + h), a, h);
  return word;
}

/// The byte stored for a scale; `max_ue8m0` is the tensor's (MXFP4).
PINCH_HOST_DEVICE std::uint32_t stored_scale(const CanonicalWeights& w, int row, int group, int max_ue8m0) {
  if (row >= w.n || group >= w.k / group_size(w.format)) return 0;
  const std::uint32_t scale = canonical_scale(w, row, group);
  if (w.format == Format::kNvfp4) return e5m3_from_e4m3(scale & 0x7fu);
  if (group_is_zero(w, row, group)) return 0;
  return (scale + 254u - static_cast<std::uint32_t>(max_ue8m0)) & 0xffu;
}

/// Word `index` of a tile's scales: NVFP4 64 words, slot index/2, groups 2*(index%2)..+1; MXFP4 32 words, slot index.
PINCH_HOST_DEVICE std::uint32_t prepared_scale_word(const CanonicalWeights& w, int row_tile, int col_tile, int index,
                                                    int max_ue8m0) {
  const bool nvfp4 = w.format == Format::kNvfp4;
  const int slot = nvfp4 ? index / 2 : index;
  const int first = nvfp4 ? index % 2 * 2 : 0;
  const int row = row_tile * kTileRows + slot / 8 * 16 + slot % 8;
  const int group = col_tile * (kTileCols / group_size(w.format)) + first;
  std::uint32_t word = 0;
  for (int g = 0; g < 2; ++g)
    for (int upper = 0; upper < 2; ++upper)
      word |= place_scale(w.format, stored_scale(w, row + 8 * upper, group + g, max_ue8m0), first + g, upper != 0);
  return word;
}

// ---- host -----------------------------------------------------------------------------------------------------------

/// Writes extent.codes_bytes and extent.scales_bytes. On anything but kOk the outputs are not complete.
PrepareStatus prepare_weights_host(const CanonicalWeights& w, std::uint8_t* codes, std::uint8_t* scales,
                                   PrepareReport* report);

/// Inverse, for round trips and checks: canonical codes [n, k/2] and linear scales. NVFP4 scales come back exactly, and
/// so do codes except those that a zero scale cleared; MXFP4 scales of all-zero groups come back as `max_ue8m0`.
void unprepare_weights_host(Format f, int n, int k, const std::uint8_t* codes, const std::uint8_t* scales,
                            int max_ue8m0, std::uint8_t* canonical_codes, std::uint8_t* canonical_scales);

}  // namespace pinch::gemm_bf16_fp4::sm90
