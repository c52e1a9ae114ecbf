#include "bench/cpu_limits.h"

#include <immintrin.h>
#include <omp.h>

#include "kernels/common/cpu/target.h"

namespace pinch::bench {
namespace {

constexpr int kRounds = 40000, kChains = 16;

// The empty asm makes each sum opaque once a round, so that the compiler neither merges rounds nor drops them.
#define PINCH_KEEP(x) asm volatile("" : "+v"(x))

double scalar_loop() {
  __m128 sum[8] = {}, x = _mm_set1_ps(1.5F), y = _mm_set1_ps(0.25F);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 8
    for (auto& s : sum) s = _mm_add_ps(s, _mm_mul_ps(x, y));
    asm volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 8
    for (auto& s : sum) asm volatile("" : "+x"(s));
  }
  return 2.0 * kRounds * 8 * 4;
}

PINCH_AVX2 double avx2_loop() {
  constexpr int kYmmChains = 12;
  __m256 sum[kYmmChains] = {};
  const __m256 x = _mm256_set1_ps(1.5F), y = _mm256_set1_ps(0.25F);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm256_fmadd_ps(x, y, s);
#pragma GCC unroll 16
    for (auto& s : sum) PINCH_KEEP(s);
  }
  return 2.0 * kRounds * kYmmChains * 8;
}

PINCH_AVX512 double avx512_loop() {
  __m512 sum[kChains] = {};
  const __m512 x = _mm512_set1_ps(1.5F), y = _mm512_set1_ps(0.25F);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm512_fmadd_ps(x, y, s);
#pragma GCC unroll 16
    for (auto& s : sum) PINCH_KEEP(s);
  }
  return 2.0 * kRounds * kChains * 16;
}

PINCH_AVX512_BF16 double bf16_loop() {
  __m512 sum[kChains] = {};
  const __m512bh x = (__m512bh)_mm512_set1_epi16(0x3fc0), y = (__m512bh)_mm512_set1_epi16(0x3e80);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm512_dpbf16_ps(s, x, y);
#pragma GCC unroll 16
    for (auto& s : sum) PINCH_KEEP(s);
  }
  return 2.0 * kRounds * kChains * 32;
}

// Static, because gcc's _tile_loadconfig tells the compiler of its first 8 bytes only, and stores to a local would go.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTiles;

PINCH_AMX_BF16 double amx_loop() {
  _tile_loadconfig(&kTiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int i = 0; i < kRounds / 8; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 2.0 * (kRounds / 8) * 4 * 16 * 16 * 32;
}

double loop(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      return scalar_loop();
    case CpuIsa::kAvx2:
      return avx2_loop();
    case CpuIsa::kAvx512:
      return avx512_loop();
    case CpuIsa::kAvx512Bf16:
      return bf16_loop();
    case CpuIsa::kAmxBf16:
      return amx_loop();
  }
  return 0;
}

constexpr std::size_t kLine = 64, kAhead = 4096;

void read_sse2(const std::byte* from, std::size_t bytes) {
  __m128i sum = _mm_setzero_si128();
  for (std::size_t i = 0; i < bytes; i += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i + kAhead), _MM_HINT_T0);
    for (std::size_t j = 0; j < kLine; j += 16) {
      sum = _mm_xor_si128(sum, _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + j)));
    }
  }
  asm volatile("" : : "x"(sum));
}

PINCH_AVX512 void read_avx512(const std::byte* from, std::size_t bytes) {
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t i = 0; i < bytes; i += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i + kAhead), _MM_HINT_T0);
    sum = _mm512_xor_si512(sum, _mm512_load_si512(from + i));
  }
  asm volatile("" : : "v"(sum));
}

}  // namespace

double multiply_add_flops(CpuIsa isa, int threads) {
  double flops = 0;
#pragma omp parallel num_threads(threads) reduction(+ : flops)
  flops += loop(isa);
  return flops;
}

double read_bytes(std::span<const std::byte> buffer, int threads) {
  const std::size_t lines = buffer.size() / kLine;
  const bool wide = cpu_machine().best_isa >= CpuIsa::kAvx512;
#pragma omp parallel num_threads(threads)
  {
    const auto part = static_cast<std::size_t>(omp_get_thread_num()),
               parts = static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t begin = lines * part / parts * kLine, end = lines * (part + 1) / parts * kLine;
    (wide ? read_avx512 : read_sse2)(buffer.data() + begin, end - begin);
  }
  return static_cast<double>(lines * kLine);
}

}  // namespace pinch::bench
