// AVX-512 without BF16: FP32 weights, one a channel and lane, times a broadcast activation.
#include <immintrin.h>

#include "kernels/common/cpu/target.h"
#include "kernels/gemm_bf16_fp4/cpu/avx512_decode.h"
#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/cpu/pack.h"
#include "kernels/gemm_bf16_fp4/cpu/store.h"

namespace pinch::detail {
namespace {

constexpr float kE2m1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                             -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

// VPERMPS reads the low 4 bits of a lane, so a shifted dword looks a code up with no masking.
PINCH_AVX512 PINCH_INLINE __m512 look_up(__m512i codes, __m512 table) {
  return _mm512_permutexvar_ps(codes, table);
}

PINCH_AVX512 PINCH_INLINE __m512 multiply_add(__m512 sum, __m512 weights, const float* a) {
  return _mm512_fmadd_ps(weights, _mm512_set1_ps(*a), sum);
}

template <Fp4Format kFormat, int kTileM, int kStrips>
PINCH_AVX512 PINCH_INLINE void stream_format(const StripSpan& strips, const void* packed, float* sums) {
  constexpr int kSteps = static_cast<int>(group_size(kFormat)) / kStepColumns;
  const __m512 table = _mm512_loadu_ps(kE2m1);
  const auto* a = static_cast<const float*>(packed);
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
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j, a += 2 * kTileM) {
#pragma GCC unroll 2
          for (int v = 0; v < kStrips; ++v) {
            const __m512i step = _mm512_loadu_si512(codes + v * apart);
            const __m512 even = look_up(_mm512_srli_epi32(step, 4 * j), table);
            const __m512 odd = look_up(_mm512_srli_epi32(step, 16 + 4 * j), table);
#pragma GCC unroll 16
            for (int r = 0; r < kTileM; ++r) partial[v][r] = multiply_add(partial[v][r], even, a + r);
#pragma GCC unroll 16
            for (int r = 0; r < kTileM; ++r) partial[v][r] = multiply_add(partial[v][r], odd, a + kTileM + r);
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
PINCH_AVX512 void stream(const StripSpan& strips, const void* packed, float* sums) {
  if (strips.format == Fp4Format::kNvfp4) {
    stream_format<Fp4Format::kNvfp4, kTileM, kStrips>(strips, packed, sums);
  } else {
    stream_format<Fp4Format::kMxfp4, kTileM, kStrips>(strips, packed, sums);
  }
}

template <Fp4Format kFormat>
PINCH_AVX512 PINCH_INLINE void decode_format(const StripSpan& strips, int tile_n, void* panel) {
  constexpr int kSteps = static_cast<int>(group_size(kFormat)) / kStepColumns;
  const __m512 table = _mm512_loadu_ps(kE2m1);
  for (int strip = 0; strip < tile_n / kStrip; ++strip) {
    float* out = static_cast<float*>(panel) + strip * kStrip;
    if (strip >= strips.strips) {
      const std::int64_t columns = strips.chunks * chunk_columns(kFormat);
      for (std::int64_t p = 0; p < columns; ++p) _mm512_storeu_ps(out + p * tile_n, _mm512_setzero_ps());
      continue;
    }
    const std::uint8_t* chunk = strips.weights + strip * strips.strip_bytes;
    for (std::int64_t c = 0; c < strips.chunks; ++c, chunk += chunk_bytes(kFormat)) {
      const std::uint8_t* codes = chunk + kChunkGroups * kStrip;
      for (int g = 0; g < kChunkGroups; ++g) {
        const __m512 scale = load_scales<kFormat>(chunk + g * kStrip);
#pragma GCC unroll 4
        for (int s = 0; s < kSteps; ++s, codes += 64) {
          const __m512i step = _mm512_loadu_si512(codes);
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j, out += 2 * tile_n) {
            _mm512_storeu_ps(out, _mm512_mul_ps(look_up(_mm512_srli_epi32(step, 4 * j), table), scale));
            _mm512_storeu_ps(out + tile_n, _mm512_mul_ps(look_up(_mm512_srli_epi32(step, 16 + 4 * j), table), scale));
          }
        }
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

template <int kTileM, int kVectors>
PINCH_AVX512 void panel_kernel(const void* packed, const void* panel, std::int64_t k, bool accumulate, float* sums) {
  const auto* a = static_cast<const float*>(packed);
  const auto* b = static_cast<const float*>(panel);
  __m512 sum[kTileM][kVectors] = {};
  if (accumulate) {
#pragma GCC unroll 32
    for (int i = 0; i < kTileM * kVectors; ++i) sum[i / kVectors][i % kVectors] = _mm512_loadu_ps(sums + i * 16);
  }
  for (std::int64_t p = 0; p < k; ++p, a += kTileM, b += kVectors * 16) {
    __m512 weights[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) weights[v] = _mm512_loadu_ps(b + v * 16);
#pragma GCC unroll 16
    for (int r = 0; r < kTileM; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = multiply_add(sum[r][v], weights[v], a + r);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kTileM * kVectors; ++i) _mm512_storeu_ps(sums + i * 16, sum[i / kVectors][i % kVectors]);
}

PINCH_AVX512 void pack(const Bf16* a, std::int64_t lda, int rows, int tile_m, std::int64_t k, std::int64_t padded_k,
                       void* packed) {
  pack_f32(a, lda, rows, tile_m, k, padded_k, packed);
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

KernelSet avx512_kernels(GemmPath path, int tile_m, int tile_n) {
  return select_kernels({pack, decode, store}, kStreams, kPanels, path, tile_m, tile_n);
}

}  // namespace pinch::detail
