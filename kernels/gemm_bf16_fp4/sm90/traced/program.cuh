// One wgmma kernel as a program, for `pinch trace gemm --device cuda`, which compiles it at each PINCH_TRACE_LEVEL
// after defining the tile's knobs as PINCH_TILE and the names of enumerators as PINCH_FORMAT and PINCH_OUTPUT; nothing
// ships it.
//   program TACTIC M N K DEVICE
// Random prepared weights and activations; outputs sampled against FP64; then launches with cold L2, each timed between
// events with its marks on, of which the trace keeps the last. Exit status: 0, 1 wrong or failed, 2 usage, 3 no device.
#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/instances.h"
#include "kernels/gemm_bf16_fp4/sm90/launch.cuh"
#include "pinch/trace.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

#define CHECK(call)                                                                          \
  do {                                                                                       \
    if (const cudaError_t error = (call); error != cudaSuccess) {                            \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                    \
      std::exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 3 : 1); \
    }                                                                                        \
  } while (false)

constexpr Format kFormat = Format::PINCH_FORMAT;
constexpr bool kF32 = OutputType::PINCH_OUTPUT == OutputType::kF32;
using Output = std::conditional_t<kF32, float, __nv_bfloat16>;
using Traits = WgmmaTraits<WgmmaTile{PINCH_TILE}, kFormat, Output>;

constexpr int kWarmUps = 20, kLaunches = 9, kSamples = 1024;
constexpr int kAccExponent = kFormat == Format::kNvfp4 ? kNvfp4AccExponent : mxfp4_acc_exponent(130);

__device__ std::uint32_t mix(std::uint64_t x) {
  x = (x + 1) * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return static_cast<std::uint32_t>(x >> 32);
}

__device__ std::int64_t first() {
  return blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
}
__device__ std::int64_t step() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

// Any code word is one of E2M1 codes. Scales of 1/4 to 4: E5M3 exponents 20 to 23, or UE8M0 125 to 128 of at most 130.
__global__ void fill(__nv_bfloat16* a, std::int64_t a_count, std::uint32_t* codes, std::int64_t words,
                     std::uint32_t* scales, std::int64_t scale_words) {
  for (std::int64_t i = first(); i < a_count; i += step())
    a[i] = __float2bfloat16(static_cast<float>(mix(i) % 4096) / 1024 - 2);
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

__global__ void read(const uint4* bytes, std::int64_t count, std::uint32_t* sink) {
  std::uint32_t sum = 0;
  for (std::int64_t i = first(); i < count; i += step()) sum ^= bytes[i].x ^ bytes[i].w;
  if (sum == 0x12345678) *sink = sum;
}

template <typename T>
T* allocate(std::size_t count) {
  T* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, count * sizeof(T)));
  return pointer;
}

int run(const WgmmaTactic& tactic, int m, int n, int k, int device) {
  int sms = 0;
  CHECK(cudaSetDevice(device));
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  const WgmmaProblem problem{m, n, k};
  if (const auto why = illegal(tactic, problem, {sms}); !why.empty() || tactic.tile != Traits::kTile) {
    std::fprintf(stderr, "refused: %s\n", why.empty() ? "this program is of another tile" : std::string(why).c_str());
    return 2;
  }
  const PreparedExtent extent = prepared_extent(kFormat, n, k);
  constexpr std::size_t kOthers = std::size_t{256} << 20;  // bytes read to push the operands out of L2
  auto* a = allocate<__nv_bfloat16>(std::size_t(m) * k);
  auto* codes = allocate<std::uint8_t>(extent.codes_bytes);
  auto* scales = allocate<std::uint8_t>(extent.scales_bytes);
  auto* out = allocate<Output>(std::size_t(m) * n);
  auto* others = allocate<std::uint8_t>(kOthers);
  auto* errors = allocate<double>(2);
  const std::size_t workspace_bytes_wanted = std::max(workspace_bytes(tactic, problem, {sms}), kFlagBytes);
  auto* workspace = allocate<std::uint8_t>(workspace_bytes_wanted);
  CHECK(cudaMemset(workspace, 0, workspace_bytes_wanted));
  CHECK(cudaMemset(others, 1, kOthers));
  CHECK(cudaMemset(errors, 0, 2 * sizeof(double)));
  CHECK(cudaMemset(out, 0xff, std::size_t(m) * n * sizeof(Output)));  // NaN
  fill<<<1024, 256>>>(a, std::int64_t{m} * k, reinterpret_cast<std::uint32_t*>(codes), extent.codes_bytes / 4,
                      reinterpret_cast<std::uint32_t*>(scales), extent.scales_bytes / 4);
  const WgmmaArgs args{a, k, codes, scales, 1.0F, kAccExponent, out, n, m, n, k, workspace};
  const auto multiply = [&] { CHECK((launch<Traits>(tactic, args, {sms}, nullptr))); };

  multiply();
  compare<<<kSamples / 128, 128>>>(a, codes, scales, out, m, n, k, errors);
  double sums[2];
  CHECK(cudaMemcpy(sums, errors, sizeof sums, cudaMemcpyDeviceToHost));
  const double error = std::sqrt(sums[0] / sums[1]), limit = kF32 ? 1e-5 * std::sqrt(k) : 2.5e-3;
  std::printf("relative L2 error of %d outputs %.2e, at most %.2e\n", kSamples, error, limit);
  if (!(error <= limit)) return 1;

  const Schedule schedule = make_schedule(tactic, problem, {sms});
  const auto grid = static_cast<std::uint32_t>(grid_ctas(tactic.tile, schedule));
  const std::int64_t steps = std::int64_t{schedule.tiles()} * (schedule.k_iterations + 2) / schedule.workers + 1;
  trace::CudaSession session(trace::kLevel,
                             "gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
                             {{{"producer"}, {"consumer", true}, {"epilogue"}},
                              {{"empty", TraceRole::kConsumer}, {"full", TraceRole::kProducer}},
                              {"issue", "drain", "decode"}},
                             {.ctas = grid,
                              .warps_of_cta = Traits::kThreads / 32,
                              .events_of_warp = static_cast<std::uint32_t>(steps) * 16 + 64});
  for (int i = 0; i < kWarmUps; ++i) multiply();
  PINCH_TRACE_ATTACH(session);
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int i = 0; i < kLaunches; ++i) {
    session.again();
    read<<<1024, 256>>>(reinterpret_cast<const uint4*>(others), kOthers / 16, reinterpret_cast<std::uint32_t*>(errors));
    CHECK(cudaEventRecord(begin));
    multiply();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    session.add_run_ns(ms * 1e6);
  }
  return session.finish() ? 0 : 1;
}

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90

int main(int argc, char** argv) {
  const auto tactic = argc == 6 ? pinch::gemm_bf16_fp4::sm90::parse_wgmma_tactic(argv[1]) : std::nullopt;
  if (!tactic) {
    std::fprintf(stderr, "usage: program TACTIC M N K DEVICE\n");
    return 2;
  }
  return pinch::gemm_bf16_fp4::sm90::run(*tactic, std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]),
                                         std::atoi(argv[5]));
}
