// One GEMM kernel as a program, for `pinch trace gemm --device cuda`, which compiles it at each PINCH_TRACE_LEVEL after
// defining the knobs of a wgmma tile as PINCH_TILE or those of a streaming instance as PINCH_STREAM, and the names of
// enumerators as PINCH_FORMAT and PINCH_OUTPUT; nothing ships it.
//   program TACTIC M N K DEVICE
// Random prepared weights and activations; outputs sampled against FP64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/gemm_bf16_fp4/sm90/traced/program_types.cuh"
#ifdef PINCH_STREAM
#include "kernels/gemm_bf16_fp4/sm90/traced/stream.cuh"
#else
#include "kernels/gemm_bf16_fp4/sm90/traced/wgmma.cuh"
#endif

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

using namespace pinch::traced;

constexpr int kSamples = 1024;

// Any code word is one of E2M1 codes. Scales of 1/4 to 4: E5M3 exponents 20 to 23, or UE8M0 125 to 128 of at most 130.
__global__ void fill_weights(std::uint32_t* codes, std::int64_t words, std::uint32_t* scales,
                             std::int64_t scale_words) {
  for (std::int64_t i = first(); i < words; i += step()) codes[i] = mix(i + (std::int64_t{1} << 40));
  for (std::int64_t i = first(); i < scale_words; i += step()) {
    const std::uint32_t random = mix(i + (std::int64_t{1} << 41));
    const auto scale = [&](int which) {
      const std::uint32_t bits = random >> (8 * which);
      return kFormat == Format::kNvfp4 ? 160 + bits % 32 : 249 + bits % 4;
    };
    scales[i] = place_scale(kFormat, scale(0), 0, false) | place_scale(kFormat, scale(1), 1, false) |
                place_scale(kFormat, scale(2), 0, true) | place_scale(kFormat, scale(3), 1, true);
  }
}

__device__ double weight(const std::uint8_t* codes, const std::uint8_t* scales, int row, int column, int col_tiles) {
  const double magnitudes[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
  const CodePlace place = code_place(row, column, col_tiles);
  std::uint8_t fragment[8];
  unpack_word(*reinterpret_cast<const std::uint32_t*>(codes + place.word_offset_bytes), fragment);
  const std::uint32_t code = fragment[2 * place.a + place.h];
  const int group = column / group_size(kFormat);
  const std::uint32_t byte = extract_scale(
      kFormat,
      *reinterpret_cast<const std::uint32_t*>(scales + scale_word_offset_bytes(kFormat, row, group, col_tiles)), group,
      row % 16 >= 8);
  const double scale = kFormat == Format::kNvfp4 ? ldexp(1.0 + (byte & 7) / 8.0, static_cast<int>(byte >> 3) - 22)
                                                 : ldexp(1.0, static_cast<int>(byte) - 124 - 127);
  return (code & 8 ? -1 : 1) * magnitudes[code & 7] * scale;
}

// errors[0] += (got - want)^2, errors[1] += want^2, of kSamples places.
__global__ void compare(const __nv_bfloat16* a, const std::uint8_t* codes, const std::uint8_t* scales,
                        const Output* out, int m, int n, int k, double* errors) {
  const std::int64_t place = mix(first() + (std::int64_t{1} << 42)) % (std::int64_t{m} * n);
  const int row = static_cast<int>(place / n), column = static_cast<int>(place % n);
  double want = 0;
  for (int i = 0; i < k; ++i)
    want += static_cast<double>(__bfloat162float(a[std::int64_t{row} * k + i])) *
            weight(codes, scales, column, i, (k + 63) / 64);
  const double got = static_cast<double>(static_cast<float>(out[place]));
  atomicAdd(errors, (got - want) * (got - want));
  atomicAdd(errors + 1, want * want);
}

int run(const char* name, int m, int n, int k, int device) {
  const auto tactic = TracedKernel::parse(name);
  if (!tactic) {
    std::fprintf(stderr, "refused: this program is of another kernel than %s\n", name);
    return 2;
  }
  int sms = 0;
  PINCH_CHECK(cudaSetDevice(device));
  PINCH_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  const TracedKernel kernel = traced_kernel(m, n, k, sms);
  if (const std::string why = kernel.illegal(*tactic); !why.empty()) {
    std::fprintf(stderr, "refused: %s\n", why.c_str());
    return 2;
  }
  const PreparedExtent extent = prepared_extent(kFormat, n, k);
  auto* a = allocate<__nv_bfloat16>(std::size_t(m) * k);
  auto* codes = allocate<std::uint8_t>(extent.codes_bytes);
  auto* scales = allocate<std::uint8_t>(extent.scales_bytes);
  auto* out = allocate<Output>(std::size_t(m) * n);
  auto* errors = allocate<double>(2);
  const std::size_t workspace_bytes = std::max(kernel.workspace(*tactic), kFlagBytes);
  auto* workspace = allocate<std::uint8_t>(workspace_bytes);
  PINCH_CHECK(cudaMemset(workspace, 0, workspace_bytes));
  PINCH_CHECK(cudaMemset(errors, 0, 2 * sizeof(double)));
  PINCH_CHECK(cudaMemset(out, 0xff, std::size_t(m) * n * sizeof(Output)));  // NaN
  fill_values<<<1024, 256>>>(a, std::int64_t{m} * k, 0);
  fill_weights<<<1024, 256>>>(reinterpret_cast<std::uint32_t*>(codes), extent.codes_bytes / 4,
                              reinterpret_cast<std::uint32_t*>(scales), extent.scales_bytes / 4);
  const Call call{a, codes, scales, out, workspace};
  const auto multiply = [&] { PINCH_CHECK(kernel.launch(*tactic, call)); };

  multiply();
  compare<<<kSamples / 128, 128>>>(a, codes, scales, out, m, n, k, errors);
  double sums[2];
  PINCH_CHECK(cudaMemcpy(sums, errors, sizeof sums, cudaMemcpyDeviceToHost));
  if (!accept(std::sqrt(sums[0] / sums[1]), kF32 ? 1e-5 * std::sqrt(k) : 2.5e-3, kSamples)) return 1;

  trace::CudaSession session(trace::kLevel,
                             "gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
                             TracedKernel::names(), kernel.room(*tactic));
  for (int i = 0; i < kWarmUps; ++i) multiply();
  PINCH_TRACE_ATTACH(session);
  time_launches(session, multiply);
  return session.finish() ? 0 : 1;
}

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: program TACTIC M N K DEVICE\n");
    return 2;
  }
  return pinch::gemm_bf16_fp4::sm90::run(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]),
                                         std::atoi(argv[5]));
}
