#include "workbench/measure/limits.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "workbench/measure/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pinch::measure {

namespace {

constexpr int kRuns = 7;
constexpr double kRunNs = 2e6;

/// One thread's loop; returns the floating-point operations done.
using Loop = double (*)(std::int64_t iterations);

double scalar_loop(std::int64_t iterations) {
  constexpr int kChains = 8;
  float sums[kChains] = {};
  float factor = 0.999F;
  for (std::int64_t i = 0; i < iterations; ++i) {
    for (float& sum : sums) {
      sum = sum * factor + factor;
      asm volatile("" : "+r"(factor));
    }
  }
  for (const float sum : sums) asm volatile("" : : "r"(sum));
  return 2.0 * kChains * static_cast<double>(iterations);
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) double avx2_loop(std::int64_t iterations) {
  constexpr int kChains = 12;  // latency 4 at 2 a cycle needs 8; there are 16 registers
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1.0F);
  const __m256 a = _mm256_set1_ps(0.999F), b = _mm256_set1_ps(0.5F);
  for (std::int64_t i = 0; i < iterations; ++i) {
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(a, b, sum);
      asm volatile("" : "+x"(sum));
    }
  }
  return 2.0 * 8 * kChains * static_cast<double>(iterations);
}

__attribute__((target("avx512f"))) double avx512_loop(std::int64_t iterations) {
  constexpr int kChains = 16;
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0F);
  const __m512 a = _mm512_set1_ps(0.999F), b = _mm512_set1_ps(0.5F);
  for (std::int64_t i = 0; i < iterations; ++i) {
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(a, b, sum);
      asm volatile("" : "+v"(sum));
    }
  }
  return 2.0 * 16 * kChains * static_cast<double>(iterations);
}

__attribute__((target("avx512f,avx512bf16"))) double avx512_bf16_loop(std::int64_t iterations) {
  constexpr int kChains = 16;  // latency 6 at up to 2 a cycle needs 12
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0F);
  const auto a = (__m512bh)_mm512_set1_epi32(0x3f7f3f7f), b = (__m512bh)_mm512_set1_epi32(0x3f003f00);
  for (std::int64_t i = 0; i < iterations; ++i) {
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, a, b);
      asm volatile("" : "+v"(sum));
    }
  }
  return 2.0 * 32 * kChains * static_cast<double>(iterations);
}

__attribute__((target("amx-tile,amx-bf16"))) double amx_bf16_loop(std::int64_t iterations) {
  struct alignas(64) TileConfig {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  };
  // Static: the intrinsic tells the compiler of the first bytes alone, so it may drop stores to the others.
  static constexpr TileConfig config;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (std::int64_t i = 0; i < iterations; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return 2.0 * 16 * 16 * 32 * 4 * static_cast<double>(iterations);
}

__attribute__((target("avx512f"))) void read_avx512(const std::byte* from, std::size_t bytes) {
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
    const __m512i first = _mm512_or_si512(_mm512_loadu_si512(from + i), _mm512_loadu_si512(from + i + 64));
    const __m512i second = _mm512_or_si512(_mm512_loadu_si512(from + i + 128), _mm512_loadu_si512(from + i + 192));
    sum = _mm512_or_si512(sum, _mm512_or_si512(first, second));
  }
  asm volatile("" : : "v"(sum));
}

__attribute__((target("avx2"))) void read_avx2(const std::byte* from, std::size_t bytes) {
  __m256i sum = _mm256_setzero_si256();
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    const auto* at = reinterpret_cast<const __m256i*>(from + i);
    const __m256i first = _mm256_or_si256(_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1));
    const __m256i second = _mm256_or_si256(_mm256_loadu_si256(at + 2), _mm256_loadu_si256(at + 3));
    sum = _mm256_or_si256(sum, _mm256_or_si256(first, second));
  }
  asm volatile("" : : "x"(sum));
}

#endif

void read_scalar(const std::byte* from, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, from + i, 8);
    sum |= word;
  }
  asm volatile("" : : "r"(sum));
}

Loop loop_of(CpuIsa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case CpuIsa::kAvx2:
      return avx2_loop;
    case CpuIsa::kAvx512:
      return avx512_loop;
    case CpuIsa::kAvx512Bf16:
      return avx512_bf16_loop;
    case CpuIsa::kAmxBf16:
      return amx_bf16_loop;
    case CpuIsa::kScalar:
      break;
  }
#endif
  return scalar_loop;
}

void (*reader())(const std::byte*, std::size_t) {
#if defined(__x86_64__)
  if (cpu_machine().best_isa >= CpuIsa::kAvx512) return read_avx512;
  if (cpu_machine().best_isa >= CpuIsa::kAvx2) return read_avx2;
#endif
  return read_scalar;
}

/// Fastest of several parallel runs of `work`, in ns.
double fastest_ns(int threads, int runs, const std::function<void(int thread)>& work) {
  SystemClock clock;
  double fastest = 0;
  for (int run = 0; run < runs; ++run) {
    const double start = clock.wall_ns();
#pragma omp parallel num_threads(threads)
    work(omp_get_thread_num());
    const double ns = clock.wall_ns() - start;
    fastest = run == 0 ? ns : std::min(fastest, ns);
  }
  return fastest;
}

}  // namespace

double multiply_add_gflops(CpuIsa isa, int threads) {
  if (isa > cpu_machine().best_isa) return 0;
  const Loop loop = loop_of(isa);
  constexpr std::int64_t kProbe = 1000;
  const double probe_ns = fastest_ns(1, kRuns, [&](int) { loop(kProbe); });
  const auto iterations = static_cast<std::int64_t>(kProbe * std::max(1.0, kRunNs / probe_ns));
  std::vector<double> flops(static_cast<std::size_t>(threads), 0.0);
  const double ns =
      fastest_ns(threads, kRuns, [&](int thread) { flops[static_cast<std::size_t>(thread)] = loop(iterations); });
  double sum = 0;
  for (const double each : flops) sum += each;
  return sum / ns;
}

double read_gbps(std::size_t bytes, int threads) {
  const std::size_t part = bytes / static_cast<std::size_t>(threads) / 256 * 256;
  if (part == 0) return 0;
  std::vector<std::byte> buffer(part * static_cast<std::size_t>(threads), std::byte{1});
  const auto read = reader();
  const double probe_ns = fastest_ns(1, 2, [&](int) { read(buffer.data(), part); });
  const int passes = static_cast<int>(std::clamp(kRunNs / probe_ns, 1.0, 1e6));
  const double ns = fastest_ns(threads, passes > 1 ? kRuns : 3, [&](int thread) {
    for (int pass = 0; pass < passes; ++pass) read(buffer.data() + static_cast<std::size_t>(thread) * part, part);
  });
  return static_cast<double>(buffer.size()) * passes / ns;
}

std::size_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    std::size_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return 0;
}

std::size_t cold_set_bytes(const Policy& policy) {
  if (policy.cold_set_bytes > 0) return policy.cold_set_bytes;
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const std::size_t bytes = std::clamp(2 * cpu_machine().l3_bytes, 64 * kMiB, 1024 * kMiB);
  const std::size_t available = available_memory_bytes();
  return available > 0 ? std::min(bytes, available / 4) : bytes;
}

}  // namespace pinch::measure
