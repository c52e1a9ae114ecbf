// AVX2 and FMA: FP32 weights, 8 channels a vector, half a strip at a time.
#include <immintrin.h>

#include <cstring>

#include "kernels/common/cpu/target.h"
#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/cpu/pack.h"
#include "kernels/gemm_bf16_fp4/cpu/store.h"
#include "kernels/gemm_bf16_fp4/packed.h"

namespace pinch::detail {
namespace {

constexpr int kHalf = 8;  // channels
constexpr float kMagnitude[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

// Codes at bit `shift` of the dwords. VPERMPS reads the low 3 bits of a lane: the magnitude; the sign is the bit above.
template <int kShift>
PINCH_AVX2 PINCH_INLINE __m256 look_up(__m256i codes, __m256 magnitudes) {
  const __m256 magnitude = _mm256_permutevar8x32_ps(magnitudes, _mm256_srli_epi32(codes, kShift));
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi32(codes, 28 - kShift), _mm256_set1_epi32(INT32_MIN));
  return _mm256_or_ps(magnitude, _mm256_castsi256_ps(sign));
}

template <Fp4Format kFormat>
PINCH_AVX2 PINCH_INLINE __m256 load_scales(const std::uint8_t* scales) {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales)));
  if constexpr (kFormat == Fp4Format::kNvfp4) {
    // E4M3 at FP32's place has an exponent too small by 120; the product also makes its subnormals normal.
    return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(bytes, 20)), _mm256_set1_ps(0x1p120F));
  } else {
    // Byte 0 stands for 2^-127, an FP32 subnormal.
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_slli_epi32(bytes, 23), _mm256_set1_epi32(0x00400000)));
  }
}

template <int kTileM>
PINCH_AVX2 PINCH_INLINE void multiply_add(__m256 (&sum)[kTileM], __m256 weights, const float* a) {
#pragma GCC unroll 8
  for (int r = 0; r < kTileM; ++r) sum[r] = _mm256_fmadd_ps(weights, _mm256_broadcast_ss(a + r), sum[r]);
}

// 8 columns of 8 channels; `a` at the first of them.
template <int kTileM>
PINCH_AVX2 PINCH_INLINE void multiply_step(__m256 (&sum)[kTileM], __m256i codes, __m256 magnitudes, const float* a) {
  multiply_add<kTileM>(sum, look_up<0>(codes, magnitudes), a);
  multiply_add<kTileM>(sum, look_up<16>(codes, magnitudes), a + kTileM);
  multiply_add<kTileM>(sum, look_up<4>(codes, magnitudes), a + 2 * kTileM);
  multiply_add<kTileM>(sum, look_up<20>(codes, magnitudes), a + 3 * kTileM);
  multiply_add<kTileM>(sum, look_up<8>(codes, magnitudes), a + 4 * kTileM);
  multiply_add<kTileM>(sum, look_up<24>(codes, magnitudes), a + 5 * kTileM);
  multiply_add<kTileM>(sum, look_up<12>(codes, magnitudes), a + 6 * kTileM);
  multiply_add<kTileM>(sum, look_up<28>(codes, magnitudes), a + 7 * kTileM);
}

template <Fp4Format kFormat, int kTileM>
PINCH_AVX2 PINCH_INLINE void stream_format(const StripSpan& strips, const void* packed, float* sums) {
  constexpr int kGroup = static_cast<int>(group_size(kFormat)), kSteps = kGroup / kStepColumns;
  const __m256 magnitudes = _mm256_loadu_ps(kMagnitude);
  const auto* a = static_cast<const float*>(packed);
  std::memset(sums, 0, sizeof(float) * kTileM * kStrip);
  const std::uint8_t* chunk = strips.weights;
  for (std::int64_t c = 0; c < strips.chunks; ++c, chunk += chunk_bytes(kFormat), a += kChunkGroups * kGroup * kTileM) {
    for (int half = 0; half < kStrip; half += kHalf) {
      __m256 sum[kTileM];
#pragma GCC unroll 8
      for (int r = 0; r < kTileM; ++r) sum[r] = _mm256_loadu_ps(sums + r * kStrip + half);
      const std::uint8_t* codes = chunk + kChunkGroups * kStrip + half * 4;
      const float* columns = a;
      for (int g = 0; g < kChunkGroups; ++g) {
        __m256 partial[kTileM] = {};
#pragma GCC unroll 4
        for (int s = 0; s < kSteps; ++s, codes += 64, columns += kStepColumns * kTileM) {
          if (kTileM <= kReadBound && half == 0) prefetch(codes);
          const __m256i step = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
          multiply_step<kTileM>(partial, step, magnitudes, columns);
        }
        const __m256 scale = load_scales<kFormat>(chunk + g * kStrip + half);
#pragma GCC unroll 8
        for (int r = 0; r < kTileM; ++r) sum[r] = _mm256_fmadd_ps(partial[r], scale, sum[r]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kTileM; ++r) _mm256_storeu_ps(sums + r * kStrip + half, sum[r]);
    }
  }
}

template <int kTileM>
PINCH_AVX2 void stream(const StripSpan& strips, const void* packed, float* sums) {
  if (strips.format == Fp4Format::kNvfp4) {
    stream_format<Fp4Format::kNvfp4, kTileM>(strips, packed, sums);
  } else {
    stream_format<Fp4Format::kMxfp4, kTileM>(strips, packed, sums);
  }
}

template <int kShift>
PINCH_AVX2 PINCH_INLINE void decode_column(__m256i codes, __m256 magnitudes, __m256 scale, float* out) {
  _mm256_storeu_ps(out, _mm256_mul_ps(look_up<kShift>(codes, magnitudes), scale));
}

// Panels of this path are one strip wide.
template <Fp4Format kFormat>
PINCH_AVX2 PINCH_INLINE void decode_format(const StripSpan& strips, void* panel) {
  constexpr int kSteps = static_cast<int>(group_size(kFormat)) / kStepColumns;
  const __m256 magnitudes = _mm256_loadu_ps(kMagnitude);
  auto* out = static_cast<float*>(panel);
  const std::uint8_t* chunk = strips.weights;
  for (std::int64_t c = 0; c < strips.chunks; ++c, chunk += chunk_bytes(kFormat)) {
    const std::uint8_t* codes = chunk + kChunkGroups * kStrip;
    for (int g = 0; g < kChunkGroups; ++g) {
      for (int s = 0; s < kSteps; ++s, codes += 64, out += kStepColumns * kStrip) {
        for (int half = 0; half < kStrip; half += kHalf) {
          const __m256 scale = load_scales<kFormat>(chunk + g * kStrip + half);
          const __m256i step = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + half * 4));
          float* to = out + half;
          decode_column<0>(step, magnitudes, scale, to);
          decode_column<16>(step, magnitudes, scale, to + kStrip);
          decode_column<4>(step, magnitudes, scale, to + 2 * kStrip);
          decode_column<20>(step, magnitudes, scale, to + 3 * kStrip);
          decode_column<8>(step, magnitudes, scale, to + 4 * kStrip);
          decode_column<24>(step, magnitudes, scale, to + 5 * kStrip);
          decode_column<12>(step, magnitudes, scale, to + 6 * kStrip);
          decode_column<28>(step, magnitudes, scale, to + 7 * kStrip);
        }
      }
    }
  }
}

PINCH_AVX2 void decode(const StripSpan& strips, int /*tile_n*/, void* panel) {
  if (strips.format == Fp4Format::kNvfp4) {
    decode_format<Fp4Format::kNvfp4>(strips, panel);
  } else {
    decode_format<Fp4Format::kMxfp4>(strips, panel);
  }
}

template <int kTileM>
PINCH_AVX2 void panel_kernel(const void* packed, const void* panel, std::int64_t k, bool accumulate, float* sums) {
  const auto* a = static_cast<const float*>(packed);
  const auto* b = static_cast<const float*>(panel);
  __m256 low[kTileM] = {}, high[kTileM] = {};
  if (accumulate) {
#pragma GCC unroll 8
    for (int r = 0; r < kTileM; ++r) {
      low[r] = _mm256_loadu_ps(sums + r * kStrip);
      high[r] = _mm256_loadu_ps(sums + r * kStrip + kHalf);
    }
  }
  for (std::int64_t p = 0; p < k; ++p, a += kTileM, b += kStrip) {
    const __m256 first = _mm256_loadu_ps(b), second = _mm256_loadu_ps(b + kHalf);
#pragma GCC unroll 8
    for (int r = 0; r < kTileM; ++r) {
      const __m256 x = _mm256_broadcast_ss(a + r);
      low[r] = _mm256_fmadd_ps(first, x, low[r]);
      high[r] = _mm256_fmadd_ps(second, x, high[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileM; ++r) {
    _mm256_storeu_ps(sums + r * kStrip, low[r]);
    _mm256_storeu_ps(sums + r * kStrip + kHalf, high[r]);
  }
}

PINCH_AVX2 void pack(const Bf16* a, std::int64_t lda, int rows, int tile_m, std::int64_t k, std::int64_t padded_k,
                     void* packed) {
  pack_f32(a, lda, rows, tile_m, k, padded_k, packed);
}

PINCH_AVX2 void store(const float* sums, int tile_n, int rows, int columns, float alpha, OutputType type, void* out,
                      std::int64_t ldo) {
  store_tile(sums, tile_n, rows, columns, alpha, type, out, ldo);
}

constexpr StreamEntry kStreams[] = {{1, 16, stream<1>}, {2, 16, stream<2>}, {4, 16, stream<4>}};
constexpr PanelEntry kPanels[] = {{4, 16, panel_kernel<4>}, {6, 16, panel_kernel<6>}};

}  // namespace

KernelSet avx2_kernels(GemmPath path, int tile_m, int tile_n) {
  return select_kernels({pack, decode, store}, kStreams, kPanels, path, tile_m, tile_n);
}

}  // namespace pinch::detail
