#include "tests/gpu/support/attention_codes.h"

#include "kernels/attention/sm90/softmax.cuh"
#include "tests/gpu/support/device_buffer.h"

namespace pinch::gpu_test {

using namespace attention;

namespace {

/// The tie between two neighbouring codes.
template <class Code>
__device__ double tie_between(Code a, Code b) {
  return (static_cast<double>(to_f32(a)) + static_cast<double>(to_f32(b))) / 2;
}

__device__ double unit_in_last_place(double exact) {
  return ldexp(1.0, ilogb(exact) - 23);
}

// One x: `device` and `host` are its exponentials by either.
template <class Code>
__device__ void compare_code(CodeDifferences& seen, Code of_device, Code of_host, float device, float host,
                             double exact) {
  ++seen.codes;
  if (of_device == of_host) return;
  const int steps = static_cast<int>(of_device.bits) - static_cast<int>(of_host.bits);
  const double tie = tie_between(of_device, of_host);
  // On which side of the tie the code says that the exponential is, and on which the exact one is.
  const bool device_past = exact == tie ? device != static_cast<float>(tie) : (steps > 0) != (exact > tie);
  const double most = device_past ? kEx2Ulps * unit_in_last_place(exact) : kPolyError[2] * exact;
  const double value = device_past ? device : host;
  const bool explained =
      abs(steps) == 1 && fabs(exact - tie) <= most && fabs(static_cast<double>(value) - exact) <= most;
  ++(explained ? device_past ? seen.by_device : seen.by_host : seen.unexplained);
}

__device__ void add(CodeDifferences& to, const CodeDifferences& seen) {
  atomicAdd(&to.codes, seen.codes);
  atomicAdd(&to.by_device, seen.by_device);
  atomicAdd(&to.by_host, seen.by_host);
  atomicAdd(&to.unexplained, seen.unexplained);
}

__device__ void raise_to(double& to, double seen) {  // neither is negative
  atomicMax(reinterpret_cast<unsigned long long*>(&to), static_cast<unsigned long long>(__double_as_longlong(seen)));
}

// All x of a sign, by magnitude: bits below `end`.
__global__ void compare_exponentials(std::uint32_t sign, std::uint32_t end, ExponentialFault fault,
                                     AllExponentials* all) {
  AllExponentials seen;
  for (std::uint32_t bits = blockIdx.x * 256 + threadIdx.x; bits < end; bits += gridDim.x * 256) {
    const float x = detail::f32_from_bits(sign | bits);
    const float device = exp2_hardware(x) * fault.factor, host = exp2_poly<5>(x);
    const double exact = exp2(static_cast<double>(x));
    const auto units = static_cast<int>(detail::f32_to_bits(device) - detail::f32_to_bits(static_cast<float>(exact)));
    seen.device_units = max(seen.device_units, abs(units));
    seen.device_ulps = fmax(seen.device_ulps, fabs(static_cast<double>(device) - exact) / unit_in_last_place(exact));
    seen.host_error = fmax(seen.host_error, fabs(static_cast<double>(host) / exact - 1));
    const E4m3 scale{static_cast<std::uint8_t>(ptx::cvt_e4m3x2(0.0F, device))};
    seen.conversions += !(scale == to_e4m3(device));
    compare_code(seen.e4m3, scale, to_e4m3(host), device, host, exact);
    if (x <= kLog2Six) {
      E2m1 code = to_e2m1(device);
      seen.conversions += fp4_round(device) != to_f32(code);
      if ((sign | bits) == fault.flipped) ++code.bits;
      compare_code(seen.e2m1, code, to_e2m1(host), device, host, exact);
    }
  }
  add(all->e2m1, seen.e2m1);
  add(all->e4m3, seen.e4m3);
  atomicAdd(&all->conversions, seen.conversions);
  atomicMax(&all->device_units, seen.device_units);
  raise_to(all->device_ulps, seen.device_ulps);
  raise_to(all->host_error, seen.host_error);
}

template <class Function>
__global__ void each(const float* x, float* y, std::size_t count, Function function) {
  for (std::size_t i = blockIdx.x * 256ull + threadIdx.x; i < count; i += gridDim.x * 256ull) y[i] = function(x[i]);
}
struct Hardware {
  __device__ float operator()(float x) const { return exp2_hardware(x); }
};
struct Degree5 {
  __device__ float operator()(float x) const { return exp2_poly<5>(x); }
};
template <class Function>
std::vector<float> of_each(const std::vector<float>& x, Function function) {
  DeviceBuffer<float> in(x.size()), out(x.size());
  PINCH_CUDA_CHECK(cudaMemcpy(in.data(), x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
  each<<<1024, 256>>>(in.data(), out.data(), x.size(), function);
  PINCH_CUDA_CHECK(cudaGetLastError());
  return out.download();
}

template <Quant kQuant>
using Fp4Traits = sm90::Traits<sm90::Kind{128, QkType::kBf16, PvType::kFp4},
                               sm90::Tile{.tile_q = 128, .tile_kv = kRowKeys, .stages = 2, .quant = kQuant}>;

// A warp has 16 rows, laid out as the matrix unit leaves them.
template <Quant kQuant>
__global__ void __launch_bounds__(128) softmax_rows(const float* scores, float scale, float* values) {
  using Softmax = sm90::Softmax<Fp4Traits<kQuant>>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t first = (blockIdx.x * 4ll + threadIdx.x / 32) * 16 + lane / 4;
  const auto place = [&](int i) {
    return (first + 8 * sm90::row_of(i)) * kRowKeys + i / 4 * 8 + i % 2 + 2 * (lane % 4);
  };
  sm90::Params params{};
  Softmax softmax(params, scale);
  typename Softmax::Scores s;
  float rest[Softmax::kRest], alpha[2];
#pragma unroll
  for (int i = 0; i < Softmax::kScores; ++i) s[i] = scores[place(i)];
  softmax.update(s, alpha);
  softmax.begin(s, rest);
#pragma unroll
  for (int i = 0; i < Softmax::kScores; ++i) values[place(i)] = s[i];
}

}  // namespace

AllExponentials compare_all_exponentials(const ExponentialFault& fault) {
  DeviceBuffer<AllExponentials> all(1);
  all.fill_bytes(0);
  const std::uint32_t below = detail::f32_to_bits(126.0F), above = detail::f32_to_bits(kLog2E4m3Max);
  compare_exponentials<<<4096, 256>>>(0x80000000U, below + 1, fault, all.data());
  compare_exponentials<<<4096, 256>>>(0, above + 1, fault, all.data());
  PINCH_CUDA_CHECK(cudaGetLastError());
  return all.download()[0];
}

std::vector<float> exponentials(const std::vector<float>& x) {
  return of_each(x, Hardware{});
}
std::vector<float> polynomials(const std::vector<float>& x) {
  return of_each(x, Degree5{});
}

std::vector<float> quantised_rows(const std::vector<float>& scores, float scale, Quant quant) {
  DeviceBuffer<float> in(scores.size()), out(scores.size());
  PINCH_CUDA_CHECK(cudaMemcpy(in.data(), scores.data(), scores.size() * sizeof(float), cudaMemcpyHostToDevice));
  const auto blocks = static_cast<unsigned>(scores.size() / (64 * kRowKeys));
  if (quant == Quant::kLinear) {
    softmax_rows<Quant::kLinear><<<blocks, 128>>>(in.data(), scale, out.data());
  } else {
    softmax_rows<Quant::kLog><<<blocks, 128>>>(in.data(), scale, out.data());
  }
  PINCH_CUDA_CHECK(cudaGetLastError());
  return out.download();
}

}  // namespace pinch::gpu_test
