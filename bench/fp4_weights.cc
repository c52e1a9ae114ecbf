// What preparing FP4 weights costs one core, on 4096 x 4096 normal weights: bytes of FP32 (or bf16) a second.
//
//     build/bench/fp4_weights
//     build/bench/fp4_weights --benchmark_filter=quantize
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "pinch/fp4.h"

namespace pinch {
namespace {

constexpr std::int64_t kSide = 4096;

const std::vector<float>& normal_weights() {
  static const std::vector<float> weights = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    std::vector<float> filled(kSide * kSide);
    for (auto& weight : filled) weight = normal(random);
    return filled;
  }();
  return weights;
}

void count_bytes(benchmark::State& state, std::int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

void find_amax(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(finite_amax(normal_weights(), kSide));
  count_bytes(state, kSide * kSide * 4);
}

void quantize(benchmark::State& state, Fp4Format format) {
  for (auto _ : state) benchmark::DoNotOptimize(quantize_fp4(normal_weights(), kSide, kSide, format));
  count_bytes(state, kSide * kSide * 4);
}

template <class T>
void dequantize(benchmark::State& state, Fp4Format format) {
  const Fp4Matrix matrix = quantize_fp4(normal_weights(), kSide, kSide, format).value();
  std::vector<T> row(kSide);
  for (auto _ : state) {
    for (std::int64_t r = 0; r < kSide; ++r) dequantize_row(matrix.view(), r, std::span<T>(row));
    benchmark::DoNotOptimize(row.data());
  }
  count_bytes(state, kSide * kSide * static_cast<std::int64_t>(sizeof(T)));
}

constexpr auto dequantize_to_bf16 = dequantize<Bf16>;
constexpr auto dequantize_to_f32 = dequantize<float>;

void validate_scales(benchmark::State& state, Fp4Format format) {
  const Fp4Matrix matrix = quantize_fp4(normal_weights(), kSide, kSide, format).value();
  for (auto _ : state) benchmark::DoNotOptimize(validate(matrix.view()).ok());
  count_bytes(state, static_cast<std::int64_t>(matrix.scales.size()));
}

void swizzle(benchmark::State& state) {
  const Fp4Matrix matrix = quantize_fp4(normal_weights(), kSide, kSide, Fp4Format::kNvfp4).value();
  for (auto _ : state) benchmark::DoNotOptimize(swizzle_scales(matrix.scales, kSide, kSide / 16));
  count_bytes(state, static_cast<std::int64_t>(matrix.scales.size()));
}

BENCHMARK(find_amax);
BENCHMARK_CAPTURE(quantize, nvfp4, Fp4Format::kNvfp4);
BENCHMARK_CAPTURE(quantize, mxfp4, Fp4Format::kMxfp4);
BENCHMARK_CAPTURE(dequantize_to_bf16, nvfp4, Fp4Format::kNvfp4);
BENCHMARK_CAPTURE(dequantize_to_bf16, mxfp4, Fp4Format::kMxfp4);
BENCHMARK_CAPTURE(dequantize_to_f32, nvfp4, Fp4Format::kNvfp4);
BENCHMARK_CAPTURE(dequantize_to_f32, mxfp4, Fp4Format::kMxfp4);
BENCHMARK_CAPTURE(validate_scales, nvfp4, Fp4Format::kNvfp4);
BENCHMARK_CAPTURE(validate_scales, mxfp4, Fp4Format::kMxfp4);
BENCHMARK(swizzle);

}  // namespace
}  // namespace pinch

BENCHMARK_MAIN();
