// The prepared-weights layout of the sm_90 kernels, version 1. Host and device; no CUDA headers needed.
//
// Weights [n, k] are padded to multiples of 64 in both directions and cut into tiles of 64 rows x 64 columns, stored
// tile by tile (row tiles outermost), so a row tile's whole k extent is one contiguous run.
//
//   codes   2048 B a tile. Thread t of 128 owns the 16 B at 16*t: rows r = 16*(t/32) + (t%32)/4 and r+8, one 32-bit
//           word per k16 block b. A word holds the eight E2M1 codes of an m16n8k16 (or wgmma m64k16) A fragment:
//             a0 = (r, 2c..2c+1)  a1 = (r+8, 2c..2c+1)  a2 = (r, 2c+8..2c+9)  a3 = (r+8, 2c+8..2c+9),  c = t%4.
//           One warp of mma.sync reads 512 contiguous bytes; four warps of wgmma read the whole tile.
//   scales  NVFP4: 256 B a tile, 8 B per (warp, lane/4): the four k16 groups of rows r and r+8.
//           MXFP4: 128 B a tile, 4 B per (warp, lane/4): the two k32 groups of rows r and r+8.
//
// Bits inside a code word, for column offset h (0: even column, 1: odd; add 16*h, modulo 32). A decoded bf16 half wants
// {sign 15, e1 8, e0 7, m 6}: that pattern, read as bf16, is value * 2^-126 (0.5 is the subnormal 0x0040).
//             sign  e1  e0   m    brought to place by
//     a0        15   8   7   6    nothing
//     a1        19  12  11  10    rotate right 4
//     a2         9   2   1   0    shift left 6
//     a3        13  14   5   4    shift left 2 (sign, e0, m) and shift right 6 (e1)
// The sixteen positions of a half tile it exactly. No arrangement needs fewer than 9 integer instructions for 8 weights
// (no translate of {15,8,7,6} tiles Z16 four ways, so one fragment takes two pieces), and of the arrangements with 9
// none has more than two plain left shifts, which the compiler may issue as IMAD.SHL beside the ALU pipe.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define PINCH_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define PINCH_HOST_DEVICE inline
#endif

namespace pinch::gemm_bf16_fp4::sm90 {

enum class Format : std::uint32_t { kNvfp4 = 0, kMxfp4 = 1 };

inline constexpr int kTileRows = 64;
inline constexpr int kTileCols = 64;
inline constexpr int kCodeTileBytes = kTileRows * kTileCols / 2;

PINCH_HOST_DEVICE constexpr int group_size(Format f) {
  return f == Format::kNvfp4 ? 16 : 32;
}
PINCH_HOST_DEVICE constexpr int scale_tile_bytes(Format f) {
  return f == Format::kNvfp4 ? 256 : 128;
}

/// Extents of a prepared matrix, in tiles and bytes.
struct PreparedExtent {
  int row_tiles;
  int col_tiles;
  std::size_t codes_bytes;
  std::size_t scales_bytes;
};

PINCH_HOST_DEVICE PreparedExtent prepared_extent(Format f, int n, int k) {
  PreparedExtent e{};
  e.row_tiles = (n + kTileRows - 1) / kTileRows;
  e.col_tiles = (k + kTileCols - 1) / kTileCols;
  const std::size_t tiles = static_cast<std::size_t>(e.row_tiles) * static_cast<std::size_t>(e.col_tiles);
  e.codes_bytes = tiles * kCodeTileBytes;
  e.scales_bytes = tiles * static_cast<std::size_t>(f == Format::kNvfp4 ? 256 : 128);
  return e;
}

// ---- code words -----------------------------------------------------------------------------------------------------

/// Places one E2M1 code (bit 3 sign, 2..1 exponent, 0 mantissa) of fragment register `a` (0..3), column offset `h`.
PINCH_HOST_DEVICE std::uint32_t place_code(std::uint32_t code, int a, int h) {
  const std::uint32_t s = code >> 3 & 1u, em = code & 7u;
  std::uint32_t half = 0;
  if (a == 0) half = s << 15 | em << 6;
  if (a == 1) half = s << 19 | em << 10;
  if (a == 2) half = s << 9 | em;
  if (a == 3) half = s << 13 | (em >> 2) << 14 | (em & 3u) << 4;
  return h == 0 ? half : (half << 16 | half >> 16);
}

/// Packs a fragment: codes[2*a + h] is register a, column offset h.
PINCH_HOST_DEVICE std::uint32_t pack_word(const std::uint8_t codes[8]) {
  std::uint32_t word = 0;
  for (int a = 0; a < 4; ++a)
    for (int h = 0; h < 2; ++h) word |= place_code(codes[2 * a + h], a, h);
  return word;
}

/// Inverse of pack_word.
PINCH_HOST_DEVICE void unpack_word(std::uint32_t word, std::uint8_t codes[8]) {
  for (int h = 0; h < 2; ++h) {
    const std::uint32_t w = h == 0 ? word : (word >> 16 | word << 16);
    codes[0 + h] = static_cast<std::uint8_t>((w >> 15 & 1u) << 3 | (w >> 6 & 7u));
    codes[2 + h] = static_cast<std::uint8_t>((w >> 19 & 1u) << 3 | (w >> 10 & 7u));
    codes[4 + h] = static_cast<std::uint8_t>((w >> 9 & 1u) << 3 | (w & 7u));
    codes[6 + h] = static_cast<std::uint8_t>((w >> 13 & 1u) << 3 | (w >> 14 & 1u) << 2 | (w >> 4 & 3u));
  }
}

/// Where column `col` of row `row` sits: byte offset of its word from the start of the codes, register and half.
struct CodePlace {
  std::size_t word_offset_bytes;
  int a;
  int h;
};

PINCH_HOST_DEVICE CodePlace code_place(int row, int col, int col_tiles) {
  const std::size_t tile = static_cast<std::size_t>(row / kTileRows) * static_cast<std::size_t>(col_tiles) +
                           static_cast<std::size_t>(col / kTileCols);
  const int r = row % kTileRows, c = col % kTileCols;
  const int thread = (r / 16) * 32 + (r % 8) * 4 + (c % 8) / 2;
  CodePlace p{};
  p.word_offset_bytes = tile * kCodeTileBytes + static_cast<std::size_t>(thread * 16 + (c / 16) * 4);
  p.a = (r % 16) / 8 + 2 * ((c % 16) / 8);
  p.h = c % 2;
  return p;
}

// ---- scales ---------------------------------------------------------------------------------------------------------
// NVFP4: the E4M3 scale becomes E5M3 (bias moved by 15, subnormals normalised), 8 bits that need only `<< 4` and the
// constant 0x7000 to be the bf16 of scale * 2^119; codes * scale is then the true weight * 2^-7. 0 stays 0: its codes
// are stored as signed zeros. Word j of the 8 bytes serves groups 2j and 2j+1, half 0 row r, half 1 row r+8:
//   even group: the byte at bits 4..11; odd group: the same rotated by 8 within its half (bits 12..15 and 0..3).
// MXFP4: byte = UE8M0 + (254 - largest UE8M0 of the tensor), 0 where the group has no nonzero code; `<< 7` is its bf16.
//   group 0: bits 7..14 of its half; group 1: the same rotated by 8 within its half.

inline constexpr int kNvfp4AccExponent = 7;
/// MXFP4 scales may span this many binades: the smallest product stays a normal bf16.
inline constexpr int kMxfp4MaxSpan = 120;

PINCH_HOST_DEVICE constexpr int mxfp4_acc_exponent(int max_ue8m0) {
  return max_ue8m0 - 128;
}

PINCH_HOST_DEVICE std::uint32_t e5m3_from_e4m3(std::uint32_t e4m3) {
  const std::uint32_t e = e4m3 >> 3 & 15u, m = e4m3 & 7u;
  if (e != 0) return (e + 15u) << 3 | m;
  if (m == 0) return 0;
  const std::uint32_t up = m >= 4 ? 1u : m >= 2 ? 2u : 3u;  // left shifts until the leading bit is bit 3
  return (16u - up) << 3 | ((m << up) & 7u);
}

PINCH_HOST_DEVICE std::uint32_t e4m3_from_e5m3(std::uint32_t e5m3) {
  const std::uint32_t e = e5m3 >> 3, m = e5m3 & 7u;
  if (e >= 16) return (e - 15u) << 3 | m;
  return e == 0 ? 0 : (8u | m) >> (16u - e);
}

/// Rotates a 16-bit half by 8.
PINCH_HOST_DEVICE std::uint32_t rotate_half(std::uint32_t half) {
  return (half << 8 | half >> 8) & 0xffffu;
}

/// The bits of one scale byte inside its 32-bit word; `group` counts within the tile, `upper` is true for row r+8.
PINCH_HOST_DEVICE std::uint32_t place_scale(Format f, std::uint32_t byte, int group, bool upper) {
  const std::uint32_t half = f == Format::kNvfp4 ? byte << 4 : byte << 7;
  return (group % 2 ? rotate_half(half) : half) << (upper ? 16 : 0);
}

PINCH_HOST_DEVICE std::uint32_t extract_scale(Format f, std::uint32_t word, int group, bool upper) {
  const std::uint32_t raw = word >> (upper ? 16 : 0) & 0xffffu;
  const std::uint32_t half = group % 2 ? rotate_half(raw) : raw;
  return half >> (f == Format::kNvfp4 ? 4 : 7) & 0xffu;
}

/// Byte offset, from the start of the scales, of the word that holds scale column `group` (of the whole row) of `row`.
PINCH_HOST_DEVICE std::size_t scale_word_offset_bytes(Format f, int row, int group, int col_tiles) {
  const int groups_per_tile = f == Format::kNvfp4 ? 4 : 2;
  const std::size_t tile = static_cast<std::size_t>(row / kTileRows) * static_cast<std::size_t>(col_tiles) +
                           static_cast<std::size_t>(group / groups_per_tile);
  const int r = row % kTileRows;
  const int slot = (r / 16) * 8 + r % 8;
  return f == Format::kNvfp4 ? tile * 256 + static_cast<std::size_t>(slot * 8 + (group % 4) / 2 * 4)
                             : tile * 128 + static_cast<std::size_t>(slot * 4);
}

/// Byte offset of a scale in the 128x4 swizzle: rows padded to 128, `padded_groups` = scale columns padded to 4.
PINCH_HOST_DEVICE std::size_t swizzled_scale_offset(int row, int group, int padded_groups) {
  return (static_cast<std::size_t>(row / 128) * static_cast<std::size_t>(padded_groups / 4) +
          static_cast<std::size_t>(group / 4)) *
             512 +
         static_cast<std::size_t>((row % 32) * 16 + (row % 128) / 32 * 4 + group % 4);
}

// ---- decoding, the integer half (the device adds the multiply: decode.cuh)
// -------------------------------------------

/// Four registers of two bf16 each, lower half = lower column.
struct Fragment {
  std::uint32_t a[4];
};

inline constexpr std::uint32_t kCodeMask = 0x81c081c0u;
inline constexpr std::uint32_t kNvfp4ScaleExponent = 0x70007000u;

/// Splits a word into fragment registers worth value * 2^-126: 9 instructions for 8 weights.
PINCH_HOST_DEVICE Fragment decode_word(std::uint32_t word) {
  Fragment f{};
#if defined(__CUDA_ARCH__)
  const std::uint32_t rotated = __funnelshift_r(word, word, 4);
#else
  const std::uint32_t rotated = word >> 4 | word << 28;
#endif
  f.a[0] = word & kCodeMask;
  f.a[1] = rotated & kCodeMask;
  f.a[2] = word << 6 & kCodeMask;
  f.a[3] = (word << 2 & 0x80c080c0u) | (word >> 6 & 0x01000100u);
  return f;
}

/// Scales of one k16 group as bf16x2: lower half row r (registers a0, a2), upper half row r+8 (a1, a3).
/// `word` is the scale word that holds `group` (NVFP4: word group/2 of the 8 bytes; MXFP4: the only word, group =
/// 0..1).
PINCH_HOST_DEVICE std::uint32_t decode_scale_pair(Format f, std::uint32_t word, int group,
                                                  std::uint32_t nvfp4_exponent = kNvfp4ScaleExponent) {
#if defined(__CUDA_ARCH__)
  const std::uint32_t w = group % 2 ? __byte_perm(word, 0, 0x2301) : word;
#else
  const std::uint32_t w = group % 2 ? (rotate_half(word >> 16) << 16 | rotate_half(word & 0xffffu)) : word;
#endif
  return f == Format::kNvfp4 ? (w & 0x0ff00ff0u) | nvfp4_exponent : w & 0x7f807f80u;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
