// AMX BF16: one TDPBF16PS multiplies 16 rows x 32 columns of activations by 32 columns x 16 channels of a panel.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/cpu/amx_tiles.h"
#include "kernels/common/cpu/target.h"
#include "kernels/gemm_bf16_fp4/cpu/avx512_decode.h"
#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/cpu/store.h"

namespace pinch::detail {
namespace {

constexpr int kTileRows = 16, kTileColumns = 32;  // of activations
constexpr int kTileBytes = 1024;

// Sums of R x C tiles, kept in tiles 0 .. R * C - 1, to and from [16 R][stride] floats. Tile numbers are immediates,
// hence the spelled-out cases.
template <int kRowTiles, int kColumnTiles>
struct Sums;

template <>
struct Sums<1, 2> {
  PINCH_AMX_BF16 PINCH_INLINE static void zero() {
    _tile_zero(0);
    _tile_zero(1);
  }
  PINCH_AMX_BF16 PINCH_INLINE static void store(float* sums, int stride) {
    _tile_stored(0, sums, stride * 4);
    _tile_stored(1, sums + 16, stride * 4);
  }
  // Tiles of activations lie one after another, and so do those of weights.
  PINCH_AMX_BF16 PINCH_INLINE static void multiply(const std::uint8_t* a, const void* weights) {
    const auto* w = static_cast<const std::uint8_t*>(weights);
    _tile_loadd(4, a, 64);
    _tile_loadd(6, w, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, w + kTileBytes, 64);
    _tile_dpbf16ps(1, 4, 7);
  }
};

template <>
struct Sums<2, 2> {
  PINCH_AMX_BF16 PINCH_INLINE static void zero() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  PINCH_AMX_BF16 PINCH_INLINE static void load(const float* sums, int stride) {
    _tile_loadd(0, sums, stride * 4);
    _tile_loadd(1, sums + 16, stride * 4);
    _tile_loadd(2, sums + kTileRows * stride, stride * 4);
    _tile_loadd(3, sums + kTileRows * stride + 16, stride * 4);
  }
  PINCH_AMX_BF16 PINCH_INLINE static void store(float* sums, int stride) {
    _tile_stored(0, sums, stride * 4);
    _tile_stored(1, sums + 16, stride * 4);
    _tile_stored(2, sums + kTileRows * stride, stride * 4);
    _tile_stored(3, sums + kTileRows * stride + 16, stride * 4);
  }
  PINCH_AMX_BF16 PINCH_INLINE static void multiply(const std::uint8_t* a, const void* weights) {
    const auto* w = static_cast<const std::uint8_t*>(weights);
    _tile_loadd(4, a, 64);
    _tile_loadd(6, w, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, w + kTileBytes, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTileBytes, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
};

template <>
struct Sums<4, 1> {
  PINCH_AMX_BF16 PINCH_INLINE static void zero() { Sums<2, 2>::zero(); }
  PINCH_AMX_BF16 PINCH_INLINE static void store(float* sums, int stride) {
    _tile_stored(0, sums, stride * 4);
    _tile_stored(1, sums + kTileRows * stride, stride * 4);
    _tile_stored(2, sums + 2 * kTileRows * stride, stride * 4);
    _tile_stored(3, sums + 3 * kTileRows * stride, stride * 4);
  }
  PINCH_AMX_BF16 PINCH_INLINE static void multiply(const std::uint8_t* a, const void* weights) {
    _tile_loadd(6, weights, 64);
    _tile_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, a + kTileBytes, 64);
    _tile_dpbf16ps(1, 5, 6);
    _tile_loadd(4, a + 2 * kTileBytes, 64);
    _tile_dpbf16ps(2, 4, 6);
    _tile_loadd(5, a + 3 * kTileBytes, 64);
    _tile_dpbf16ps(3, 5, 6);
  }
};

// Decodes 32 columns, step `s` of a chunk, of some strips to one tile of weights each.
template <Fp4Format kFormat, int kStrips>
PINCH_AVX512 PINCH_INLINE void decode_tiles(PairDecoder<kFormat>& decoder, const std::uint8_t* chunk,
                                            std::int64_t apart, int s, std::uint32_t* tiles) {
  constexpr int kGroups = kTileColumns / static_cast<int>(group_size(kFormat));
  constexpr int kRows = 4 / kGroups;  // of codes, in a group
#pragma GCC unroll 2
  for (int v = 0; v < kStrips; ++v, chunk += apart) {
    const std::uint8_t* codes = chunk + kChunkGroups * kStrip + s * 256;
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      decoder.set_scales(chunk + (s * kGroups + g) * kStrip);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r, codes += 64, tiles += 64) {
        const __m512i step = _mm512_loadu_si512(codes);
        _mm512_store_si512(tiles, decoder.decode(step));
        _mm512_store_si512(tiles + 16, decoder.decode(_mm512_srli_epi16(step, 4)));
        _mm512_store_si512(tiles + 32, decoder.decode(_mm512_srli_epi16(step, 8)));
        _mm512_store_si512(tiles + 48, decoder.decode(_mm512_srli_epi16(step, 12)));
      }
    }
  }
}

// The vector units decode 32 columns ahead of the tile unit, into a buffer that never leaves the first-level cache.
template <Fp4Format kFormat, int kRowTiles, int kStrips>
PINCH_AMX_BF16 PINCH_INLINE void stream_format(const StripSpan& strips, const void* packed, float* sums) {
  constexpr int kSteps = chunk_columns(kFormat) / kTileColumns;
  alignas(64) std::uint32_t tiles[2][kStrips * kTileBytes / 4];
  const auto* a = static_cast<const std::uint8_t*>(packed);
  // A strip that does not exist repeats the first; its sums are stored by nobody.
  const std::int64_t apart = strips.strips < kStrips ? 0 : strips.strip_bytes;
  const std::uint8_t* chunk = strips.weights;
  PairDecoder<kFormat> decoder;
  decoder.start();
  _tile_loadconfig(&kFullTiles);
  Sums<kRowTiles, kStrips>::zero();
  decode_tiles<kFormat, kStrips>(decoder, chunk, apart, 0, tiles[0]);
  for (std::int64_t c = 0; c < strips.chunks; ++c) {
    // After the last step there is none to decode: the last chunk stands in.
    const std::uint8_t* next = c + 1 < strips.chunks ? chunk + chunk_bytes(kFormat) : chunk;
#pragma GCC unroll 4
    for (int s = 0; s < kSteps; ++s, a += kRowTiles * kTileBytes) {
      const bool last = s + 1 == kSteps;
      decode_tiles<kFormat, kStrips>(decoder, last ? next : chunk, apart, last ? 0 : s + 1, tiles[(s + 1) % 2]);
      Sums<kRowTiles, kStrips>::multiply(a, tiles[s % 2]);
    }
    chunk = next;
  }
  Sums<kRowTiles, kStrips>::store(sums, kStrips * kStrip);
  _tile_release();
}

template <int kRowTiles, int kStrips>
PINCH_AMX_BF16 void stream(const StripSpan& strips, const void* packed, float* sums) {
  if (strips.format == Fp4Format::kNvfp4) {
    stream_format<Fp4Format::kNvfp4, kRowTiles, kStrips>(strips, packed, sums);
  } else {
    stream_format<Fp4Format::kMxfp4, kRowTiles, kStrips>(strips, packed, sums);
  }
}

// Panels are made of parts of 32 channels, [k / 32][2 tiles], and a kernel call multiplies its rows, which stay in the
// first-level cache for a block of k, by all of them.
constexpr int kPart = 32;

template <int kTileN>
PINCH_AMX_BF16 void panel_kernel(const void* packed, const void* panel, std::int64_t k, bool accumulate, float* sums) {
  const auto* part = static_cast<const std::uint8_t*>(panel);
  _tile_loadconfig(&kFullTiles);
  for (int column = 0; column < kTileN; column += kPart) {
    const auto* a = static_cast<const std::uint8_t*>(packed);
    if (accumulate) {
      Sums<2, 2>::load(sums + column, kTileN);
    } else {
      Sums<2, 2>::zero();
    }
    for (std::int64_t p = 0; p < k; p += kTileColumns, a += 2 * kTileBytes, part += 2 * kTileBytes) {
      Sums<2, 2>::multiply(a, part);
    }
    Sums<2, 2>::store(sums + column, kTileN);
  }
  _tile_release();
}

template <Fp4Format kFormat>
PINCH_AVX512 PINCH_INLINE void decode_format(const StripSpan& strips, int tile_n, void* panel) {
  constexpr int kSteps = chunk_columns(kFormat) / kTileColumns;
  PairDecoder<kFormat> decoder;
  decoder.start();
  auto* out = static_cast<std::uint32_t*>(panel);
  for (int strip = 0; strip < tile_n / kStrip; strip += 2) {
    if (strip >= strips.strips) {
      const std::int64_t bytes = strips.chunks * kSteps * 2 * kTileBytes * ((tile_n / kStrip - strip) / 2);
      std::memset(out, 0, static_cast<std::size_t>(bytes));
      return;
    }
    const std::uint8_t* chunk = strips.weights + strip * strips.strip_bytes;
    // A strip that does not exist repeats its neighbour; its sums are stored by nobody.
    const std::int64_t apart = strip + 1 < strips.strips ? strips.strip_bytes : 0;
    for (std::int64_t c = 0; c < strips.chunks; ++c, chunk += chunk_bytes(kFormat)) {
#pragma GCC unroll 4
      for (int s = 0; s < kSteps; ++s, out += 2 * kTileBytes / 4) {
        decode_tiles<kFormat, 2>(decoder, chunk, apart, s, out);
      }
    }
  }
}

PINCH_AVX512 void decode(const StripSpan& strips, int tile_n, void* panel) {
  if (strips.format == Fp4Format::kNvfp4) {
    decode_format<Fp4Format::kNvfp4>(strips, tile_n, panel);
  } else {
    decode_format<Fp4Format::kMxfp4>(strips, tile_n, panel);
  }
}

// [padded_k / 32][tile_m][32]: a tile's rows side by side, so that loading one touches 16 neighbouring lines.
void pack(const Bf16* a, std::int64_t lda, int rows, int tile_m, std::int64_t k, std::int64_t padded_k, void* packed) {
  auto* out = static_cast<Bf16*>(packed);
  // Rows are far apart in `a`: reading 1 KiB of each at a time lets the prefetcher follow.
  constexpr std::int64_t kBlock = 512;
  for (std::int64_t block = 0; block < padded_k; block += kBlock) {
    for (int r = 0; r < tile_m; ++r) {
      for (std::int64_t p = block; p < std::min(block + kBlock, padded_k); p += kTileColumns) {
        Bf16* to = out + p * tile_m + r * kTileColumns;
        const std::int64_t there = r < rows ? std::clamp<std::int64_t>(k - p, 0, kTileColumns) : 0;
        if (there == kTileColumns) {
          std::memcpy(to, a + r * lda + p, kTileColumns * sizeof(Bf16));
        } else {
          std::fill(std::copy_n(a + r * lda + p, there, to), to + kTileColumns, Bf16{});
        }
      }
    }
  }
}

PINCH_AVX512 void store(const float* sums, int tile_n, int rows, int columns, float alpha, OutputType type, void* out,
                        std::int64_t ldo) {
  store_tile(sums, tile_n, rows, columns, alpha, type, out, ldo);
}

constexpr StreamEntry kStreams[] = {{16, 32, stream<1, 2>}, {32, 32, stream<2, 2>}, {64, 16, stream<4, 1>}};
constexpr PanelEntry kPanels[] = {{32, 256, panel_kernel<256>}, {32, 512, panel_kernel<512>}};

}  // namespace

KernelSet amx_bf16_kernels(GemmPath path, int tile_m, int tile_n) {
  return select_kernels({pack, decode, store}, kStreams, kPanels, path, tile_m, tile_n);
}

}  // namespace pinch::detail
