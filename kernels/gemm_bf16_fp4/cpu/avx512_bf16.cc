// AVX-512 BF16: one VDPBF16PS multiplies a pair of columns of 16 channels by a broadcast pair of activations.
//
// VDPBF16PS is fmaf(even, even, fmaf(odd, odd, sum)) with bf16 and FP32 subnormals flushed, so the sums of these
// kernels are defined to the bit (tests/kernel/gemm_bits_test.cc).
#include <immintrin.h>

#include "kernels/common/cpu/target.h"
#include "kernels/gemm_bf16_fp4/cpu/avx512_decode.h"
#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/cpu/pack.h"
#include "kernels/gemm_bf16_fp4/cpu/store.h"

namespace pinch::detail {
namespace {

constexpr std::uint16_t kE2m1[16] = {0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0,
                                     0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0};

PINCH_AVX512_BF16 PINCH_INLINE __m512 dot(__m512 sum, __m512i weights, const std::uint32_t* pair) {
  return _mm512_dpbf16_ps(sum, (__m512bh)weights, (__m512bh)_mm512_set1_epi32(static_cast<int>(*pair)));
}

template <Fp4Format kFormat, int kTileM, int kStrips>
PINCH_AVX512_BF16 PINCH_INLINE void stream_format(const StripSpan& strips, const void* packed, float* sums) {
  constexpr int kSteps = static_cast<int>(group_size(kFormat)) / kStepColumns;
  const __m512i table = table_of_words(kE2m1);
  const auto* a = static_cast<const std::uint32_t*>(packed);
  // A strip that does not exist repeats the first; its sums are stored by nobody.
  const std::int64_t apart = strips.strips < kStrips ? 0 : strips.strip_bytes;
  const std::uint8_t* chunk = strips.weights;
  __m512 sum[kStrips][kTileM] = {};
  for (std::int64_t c = 0; c < strips.chunks; ++c, chunk += chunk_bytes(kFormat)) {
    const std::uint8_t* codes = chunk + kChunkGroups * kStrip;
    for (int g = 0; g < kChunkGroups; ++g) {
      __m512 partial[kStrips][kTileM] = {};
#pragma GCC unroll 4
      for (int s = 0; s < kSteps; ++s, codes += 64) {
        if constexpr (kTileM <= kReadBound) {
#pragma GCC unroll 2
          for (int v = 0; v < kStrips; ++v) prefetch(codes + v * apart);
        }
        __m512i step[kStrips];
#pragma GCC unroll 2
        for (int v = 0; v < kStrips; ++v) step[v] = _mm512_loadu_si512(codes + v * apart);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j, a += kTileM) {
#pragma GCC unroll 2
          for (int v = 0; v < kStrips; ++v) {
            const __m512i weights = _mm512_permutexvar_epi16(step[v], table);
            step[v] = _mm512_srli_epi16(step[v], 4);
#pragma GCC unroll 16
            for (int r = 0; r < kTileM; ++r) partial[v][r] = dot(partial[v][r], weights, a + r);
          }
        }
      }
#pragma GCC unroll 2
      for (int v = 0; v < kStrips; ++v) {
        const __m512 scale = load_scales<kFormat>(chunk + v * apart + g * kStrip);
#pragma GCC unroll 16
        for (int r = 0; r < kTileM; ++r) sum[v][r] = _mm512_fmadd_ps(partial[v][r], scale, sum[v][r]);
      }
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < kStrips; ++v) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileM; ++r) _mm512_storeu_ps(sums + (r * kStrips + v) * kStrip, sum[v][r]);
  }
}

template <int kTileM, int kStrips>
PINCH_AVX512_BF16 void stream(const StripSpan& strips, const void* packed, float* sums) {
  if (strips.format == Fp4Format::kNvfp4) {
    stream_format<Fp4Format::kNvfp4, kTileM, kStrips>(strips, packed, sums);
  } else {
    stream_format<Fp4Format::kMxfp4, kTileM, kStrips>(strips, packed, sums);
  }
}

PINCH_AVX512 void decode(const StripSpan& strips, int tile_n, void* panel) {
  if (strips.format == Fp4Format::kNvfp4) {
    decode_pairs<Fp4Format::kNvfp4>(strips, tile_n, panel);
  } else {
    decode_pairs<Fp4Format::kMxfp4>(strips, tile_n, panel);
  }
}

template <int kTileM, int kVectors>
PINCH_AVX512_BF16 void panel_kernel(const void* packed, const void* panel, std::int64_t k, bool accumulate,
                                    float* sums) {
  const auto* a = static_cast<const std::uint32_t*>(packed);
  const auto* b = static_cast<const std::uint32_t*>(panel);
  __m512 sum[kTileM][kVectors] = {};
  if (accumulate) {
#pragma GCC unroll 32
    for (int i = 0; i < kTileM * kVectors; ++i) sum[i / kVectors][i % kVectors] = _mm512_loadu_ps(sums + i * 16);
  }
  for (std::int64_t p = 0; p < k / 2; ++p, a += kTileM, b += kVectors * 16) {
    __m512i weights[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) weights[v] = _mm512_loadu_si512(b + v * 16);
#pragma GCC unroll 16
    for (int r = 0; r < kTileM; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = dot(sum[r][v], weights[v], a + r);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kTileM * kVectors; ++i) _mm512_storeu_ps(sums + i * 16, sum[i / kVectors][i % kVectors]);
}

PINCH_AVX512 void pack(const Bf16* a, std::int64_t lda, int rows, int tile_m, std::int64_t k, std::int64_t padded_k,
                       void* packed) {
  pack_pairs(a, lda, rows, tile_m, k, padded_k, packed);
}

PINCH_AVX512 void store(const float* sums, int tile_n, int rows, int columns, float alpha, OutputType type, void* out,
                        std::int64_t ldo) {
  store_tile(sums, tile_n, rows, columns, alpha, type, out, ldo);
}

constexpr StreamEntry kStreams[] = {
    {1, 16, stream<1, 1>},   {2, 16, stream<2, 1>}, {4, 16, stream<4, 1>}, {8, 16, stream<8, 1>},
    {12, 16, stream<12, 1>}, {1, 32, stream<1, 2>}, {4, 32, stream<4, 2>},
};
constexpr PanelEntry kPanels[] = {
    {6, 64, panel_kernel<6, 4>},
    {8, 48, panel_kernel<8, 3>},
    {12, 32, panel_kernel<12, 2>},
};

}  // namespace

KernelSet avx512_bf16_kernels(GemmPath path, int tile_m, int tile_n) {
  return select_kernels({pack, decode, store}, kStreams, kPanels, path, tile_m, tile_n);
}

}  // namespace pinch::detail
