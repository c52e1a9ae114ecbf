// What the 512-bit paths share: scales and codes of one strip to vectors of one channel a lane, and activations to
// pairs.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/common/cpu/target.h"
#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/packed.h"
#include "pinch/formats.h"

namespace pinch::detail {

/// The 16 scales of one group as FP32.
template <Fp4Format kFormat>
PINCH_AVX512 PINCH_INLINE __m512 load_scales(const std::uint8_t* scales) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales)));
  if constexpr (kFormat == Fp4Format::kNvfp4) {
    // E4M3 at FP32's place has an exponent too small by 120; the product also makes its subnormals normal.
    return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(bytes, 20)), _mm512_set1_ps(0x1p120F));
  } else {
    // Byte 0 stands for 2^-127, an FP32 subnormal.
    return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_slli_epi32(bytes, 23), _mm512_set1_epi32(0x00400000)));
  }
}

/// 16 words, twice: VPERMW reads 5 bits of a word, and codes above the one that is looked up leave noise in the fifth.
PINCH_AVX512 PINCH_INLINE __m512i table_of_words(const std::uint16_t (&words)[16]) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)));
}

/// Decodes one strip's codes to bf16 pairs (columns 2p, 2p + 1), times their scale, exactly.
///
/// E2M1 is 2^e or 1.5 * 2^e, so the product's bits are those of s or of 1.5 s, plus e in the exponent field. A table
/// gives bits(2^(e + bias)) with the 1.5 as a flag in the lowest bit, and 0 for both zeros; a saturating subtraction
/// moves the exponent to s and keeps zeros at 0; where the flag is set, the distance from s to 1.5 s is added.
template <Fp4Format kFormat>
struct PairDecoder {
  static constexpr bool kNv = kFormat == Fp4Format::kNvfp4;
  // Room above and below in the 8-bit exponent. MXFP4 scales reach 2^125 and need none above.
  static constexpr int kBias = kNv ? 64 : 125;
  static constexpr std::uint16_t power(int e, bool flag) {
    return static_cast<std::uint16_t>(((e + kBias + 127) << 7) | (flag ? (kNv ? 1 : 0x40) : 0));
  }
  static constexpr std::uint16_t kMinus = 0x8000;
  static constexpr std::uint16_t kTable[16] = {0,
                                               power(-1, false),
                                               power(0, false),
                                               power(0, true),
                                               power(1, false),
                                               power(1, true),
                                               power(2, false),
                                               power(2, true),
                                               0,
                                               kMinus | power(-1, false),
                                               kMinus | power(0, false),
                                               kMinus | power(0, true),
                                               kMinus | power(1, false),
                                               kMinus | power(1, true),
                                               kMinus | power(2, false),
                                               kMinus | power(2, true)};

  __m512i table;
  __m512i down;    // what to subtract from the table's exponent
  __m512i to_1p5;  // bits(1.5 s) - bits(s), less the flag

  PINCH_AVX512 PINCH_INLINE void start() { table = table_of_words(kTable); }

  /// Takes the 16 scales of one group.
  PINCH_AVX512 PINCH_INLINE void set_scales(const std::uint8_t* scales) {
    if constexpr (kNv) {
      const __m512 scale = load_scales<kFormat>(scales);
      const __m512i once = twice_bf16(scale), more = twice_bf16(_mm512_mul_ps(scale, _mm512_set1_ps(1.5F)));
      down = _mm512_sub_epi16(_mm512_set1_epi16(static_cast<short>(power(0, false))), once);
      to_1p5 = _mm512_sub_epi16(_mm512_sub_epi16(more, once), _mm512_set1_epi16(1));
    } else {
      // A power of two: 1.5 keeps its fraction, and only the exponent moves.
      const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales)));
      const __m512i exponent = _mm512_slli_epi32(bytes, 7);
      down = _mm512_sub_epi16(_mm512_set1_epi16(static_cast<short>((127 + kBias) << 7)),
                              _mm512_or_si512(exponent, _mm512_slli_epi32(exponent, 16)));
    }
  }

  /// The codes in the low nibbles of 32 words.
  PINCH_AVX512 PINCH_INLINE __m512i decode(__m512i codes) const {
    const __m512i power_of_two = _mm512_permutexvar_epi16(codes, table);
    const __m512i scaled = _mm512_subs_epu16(power_of_two, down);
    if constexpr (kNv) {
      return _mm512_mask_add_epi16(scaled, _mm512_test_epi16_mask(scaled, _mm512_set1_epi16(1)), scaled, to_1p5);
    } else {
      return scaled;
    }
  }

 private:
  // FP32 values that are exact in bf16, in both halves of their lanes.
  PINCH_AVX512 PINCH_INLINE static __m512i twice_bf16(__m512 values) {
    const __m512i bits = _mm512_castps_si512(values);
    return _mm512_or_si512(bits, _mm512_srli_epi32(bits, 16));
  }
};

/// DecodeKernel of panels of bf16 pairs.
template <Fp4Format kFormat>
PINCH_AVX512 PINCH_INLINE void decode_pairs(const StripSpan& strips, int tile_n, void* panel) {
  constexpr int kSteps = static_cast<int>(group_size(kFormat)) / kStepColumns;
  PairDecoder<kFormat> decoder;
  decoder.start();
  for (int strip = 0; strip < tile_n / kStrip; ++strip) {
    auto* out = static_cast<std::uint32_t*>(panel) + strip * kStrip;
    if (strip >= strips.strips) {
      const std::int64_t pairs = strips.chunks * chunk_columns(kFormat) / 2;
      for (std::int64_t p = 0; p < pairs; ++p) _mm512_storeu_si512(out + p * tile_n, _mm512_setzero_si512());
      continue;
    }
    const std::uint8_t* chunk = strips.weights + strip * strips.strip_bytes;
    for (std::int64_t c = 0; c < strips.chunks; ++c, chunk += chunk_bytes(kFormat)) {
      const std::uint8_t* codes = chunk + kChunkGroups * kStrip;
      for (int g = 0; g < kChunkGroups; ++g) {
        decoder.set_scales(chunk + g * kStrip);
#pragma GCC unroll 4
        for (int s = 0; s < kSteps; ++s, codes += 64) {
          const __m512i step = _mm512_loadu_si512(codes);
          _mm512_storeu_si512(out, decoder.decode(step));
          _mm512_storeu_si512(out + tile_n, decoder.decode(_mm512_srli_epi16(step, 4)));
          _mm512_storeu_si512(out + 2 * tile_n, decoder.decode(_mm512_srli_epi16(step, 8)));
          _mm512_storeu_si512(out + 3 * tile_n, decoder.decode(_mm512_srli_epi16(step, 12)));
          out += 4 * tile_n;
        }
      }
    }
  }
}

}  // namespace pinch::detail
