// AMX BF16: one TDPBF16PS multiplies 16 rows x 32 columns of activations by 32 columns x 16 channels of a panel.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/cpu/target.h"
#include "kernels/gemm_bf16_fp4/cpu/avx512_decode.h"
#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/cpu/store.h"

namespace pinch::detail {
namespace {

constexpr int kTileRows = 16, kTileColumns = 32;  // of activations
constexpr int kTileBytes = 1024;

// Palette 1 with every tile at its full 16 rows x 64 bytes. Static, because gcc's _tile_loadconfig tells the compiler
// of its first 8 bytes only, and stores to a local would go.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
constexpr TileConfig kConfig;

// 32 rows x 32 channels: tiles 0-3 sums, 4-5 activations, 6-7 weights, so that each loaded tile is used twice.
PINCH_AMX_BF16 void panel_32x32(const void* packed, const void* panel, std::int64_t k, bool accumulate, float* sums) {
  constexpr int kSumsStride = 32 * 4, kPanelStride = 32 * 4;
  const auto* a = static_cast<const std::uint8_t*>(packed);
  const auto* b = static_cast<const std::uint8_t*>(panel);
  _tile_loadconfig(&kConfig);
  if (accumulate) {
    _tile_loadd(0, sums, kSumsStride);
    _tile_loadd(1, sums + 16, kSumsStride);
    _tile_loadd(2, sums + kTileRows * 32, kSumsStride);
    _tile_loadd(3, sums + kTileRows * 32 + 16, kSumsStride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t p = 0; p < k; p += kTileColumns, a += 2 * kTileBytes, b += 16 * kPanelStride) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, kPanelStride);
    _tile_loadd(7, b + 64, kPanelStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTileBytes, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kSumsStride);
  _tile_stored(1, sums + 16, kSumsStride);
  _tile_stored(2, sums + kTileRows * 32, kSumsStride);
  _tile_stored(3, sums + kTileRows * 32 + 16, kSumsStride);
  _tile_release();
}

// 16 rows x 64 channels, for few rows: tiles 0-3 sums, 4 activations, 5-7 weights in turn.
PINCH_AMX_BF16 void panel_16x64(const void* packed, const void* panel, std::int64_t k, bool accumulate, float* sums) {
  constexpr int kSumsStride = 64 * 4, kPanelStride = 64 * 4;
  const auto* a = static_cast<const std::uint8_t*>(packed);
  const auto* b = static_cast<const std::uint8_t*>(panel);
  _tile_loadconfig(&kConfig);
  if (accumulate) {
    _tile_loadd(0, sums, kSumsStride);
    _tile_loadd(1, sums + 16, kSumsStride);
    _tile_loadd(2, sums + 32, kSumsStride);
    _tile_loadd(3, sums + 48, kSumsStride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t p = 0; p < k; p += kTileColumns, a += kTileBytes, b += 16 * kPanelStride) {
    _tile_loadd(4, a, 64);
    _tile_loadd(5, b, kPanelStride);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, b + 64, kPanelStride);
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(7, b + 128, kPanelStride);
    _tile_dpbf16ps(2, 4, 7);
    _tile_loadd(5, b + 192, kPanelStride);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, sums, kSumsStride);
  _tile_stored(1, sums + 16, kSumsStride);
  _tile_stored(2, sums + 32, kSumsStride);
  _tile_stored(3, sums + 48, kSumsStride);
  _tile_release();
}

PINCH_AVX512 void decode(const StripSpan& strips, int tile_n, void* panel) {
  if (strips.format == Fp4Format::kNvfp4) {
    decode_pairs<Fp4Format::kNvfp4>(strips, tile_n, panel);
  } else {
    decode_pairs<Fp4Format::kMxfp4>(strips, tile_n, panel);
  }
}

// [padded_k / 32][tile_m][32]: a tile's rows side by side, so that loading one touches 16 neighbouring lines.
void pack(const Bf16* a, std::int64_t lda, int rows, int tile_m, std::int64_t k, std::int64_t padded_k, void* packed) {
  auto* out = static_cast<Bf16*>(packed);
  for (std::int64_t p = 0; p < padded_k; p += kTileColumns) {
    const std::int64_t columns = std::clamp<std::int64_t>(k - p, 0, kTileColumns);
    for (int r = 0; r < tile_m; ++r, out += kTileColumns) {
      const std::int64_t there = r < rows ? columns : 0;
      if (there == kTileColumns) {
        std::memcpy(out, a + r * lda + p, kTileColumns * sizeof(Bf16));
      } else {
        std::fill(std::copy_n(a + r * lda + p, there, out), out + kTileColumns, Bf16{});
      }
    }
  }
}

PINCH_AVX512 void store(const float* sums, int tile_n, int rows, int columns, float alpha, OutputType type, void* out,
                        std::int64_t ldo) {
  store_tile(sums, tile_n, rows, columns, alpha, type, out, ldo);
}

constexpr StreamEntry kStreams[] = {{0, 0, nullptr}};
constexpr PanelEntry kPanels[] = {{16, 64, panel_16x64}, {32, 32, panel_32x32}};

}  // namespace

KernelSet amx_bf16_kernels(GemmPath path, int tile_m, int tile_n) {
  return select_kernels({pack, decode, store}, kStreams, kPanels, path, tile_m, tile_n);
}

}  // namespace pinch::detail
