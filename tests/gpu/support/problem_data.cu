#include "tests/gpu/support/problem_data.h"

#include <cstring>

#include "kernels/gemm_bf16_fp4/sm90/prepare.cuh"

namespace pinch::gpu_test {

using namespace gemm_bf16_fp4::sm90;

namespace {

// Every value is a function of its position, so kernels of any grid give the same data.
__device__ std::uint32_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return static_cast<std::uint32_t>(x >> 32);
}

__device__ std::uint32_t position_hash(std::uint64_t seed, int row, int column) {
  return mix(seed ^ (static_cast<std::uint64_t>(row) << 24 ^ static_cast<std::uint64_t>(column) << 1));
}

__device__ std::int64_t first_index() {
  return blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
}
__device__ std::int64_t index_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

__global__ void fill_activations(__nv_bfloat16* a, int m, int k, int stride, std::uint64_t seed) {
  for (std::int64_t i = first_index(); i < static_cast<std::int64_t>(m) * stride; i += index_step()) {
    const float u = (mix(seed + 2 * i) + 0.5f) * 2.3283064e-10f, v = mix(seed + 2 * i + 1) * 2.3283064e-10f;
    const float normal = sqrtf(-2 * logf(fminf(u, 0.9999999f))) * cosf(6.2831853f * v);
    a[i] = i % stride < k ? __float2bfloat16(normal) : __ushort_as_bfloat16(0x7FC0);
  }
}

__global__ void plant_nan_and_inf(__nv_bfloat16* a, int m, int k, int stride) {
  if (m > 1) a[stride + k - 1] = __ushort_as_bfloat16(0x7FC0);
  if (m > 2) a[2 * stride + 17] = __ushort_as_bfloat16(0x7F80);
}

__global__ void fill_codes(std::uint8_t* codes, std::int64_t count, int k, std::uint64_t seed) {
  for (std::int64_t i = first_index(); i < count; i += index_step())
    codes[i] = static_cast<std::uint8_t>(
        position_hash(seed, static_cast<int>(i / (k / 2)), static_cast<int>(i % (k / 2))) >> 7);
}

// NVFP4: some subnormals and zeros.
__global__ void fill_scales(Format format, std::uint8_t* scales, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::uint32_t r = mix(seed * 3 + 77 + i);
    if (format == Format::kNvfp4)
      scales[i] = static_cast<std::uint8_t>(r % 61 == 0 ? r >> 8 & 7u : 0x20u + (r >> 8) % 0x30u);
    else
      scales[i] = static_cast<std::uint8_t>(120 + (r >> 8) % 12);
  }
}

__device__ double e2m1(std::uint32_t code) {
  const double magnitude[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -magnitude[code & 7] : magnitude[code & 7];
}

__device__ double scale_value(Format format, std::uint32_t scale) {
  if (format == Format::kMxfp4) return exp2(static_cast<double>(scale) - 127);
  const int e = static_cast<int>(scale >> 3 & 15), m = static_cast<int>(scale & 7);
  return e == 0 ? ldexp(static_cast<double>(m), -9) : ldexp(1.0 + m / 8.0, e - 7);
}

__global__ void dequantise(CanonicalWeights w, __nv_bfloat16* dense) {
  for (std::int64_t i = first_index(); i < static_cast<std::int64_t>(w.n) * w.k; i += index_step()) {
    const int row = static_cast<int>(i / w.k), column = static_cast<int>(i % w.k);
    const std::uint32_t byte = w.codes[i / 2];
    dense[i] = __double2bfloat16(e2m1(column % 2 ? byte >> 4 : byte & 15) *
                                 scale_value(w.format, canonical_scale(w, row, column / group_size(w.format))));
  }
}

// One thread an output.
__global__ void reference(const __nv_bfloat16* a, int a_stride, const __nv_bfloat16* dense, double alpha, int m, int n,
                          int k, int m_step, double* expected) {
  const std::int64_t count = static_cast<std::int64_t>((m + m_step - 1) / m_step) * n;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::int64_t row = i / n * m_step, column = i % n;
    double sum = 0;
    for (int x = 0; x < k; ++x)
      sum += static_cast<double>(__bfloat162float(a[row * a_stride + x])) *
             static_cast<double>(__bfloat162float(dense[column * k + x]));
    expected[i] = sum * alpha;
  }
}

void require(bool condition, const char* what, const ProblemShape& s) {
  if (condition) return;
  std::printf("FAIL prepare n=%d k=%d %s: %s\n", s.n, s.k, name(s.format), what);
  std::exit(1);
}

std::size_t canonical_scale_count(const ProblemShape& s) {
  const int groups = s.k / group_size(s.format);
  if (!s.swizzled_scales) return static_cast<std::size_t>(s.n) * static_cast<std::size_t>(groups);
  return static_cast<std::size_t>((s.n + 127) / 128 * 128) * static_cast<std::size_t>((groups + 3) / 4 * 4);
}

}  // namespace

const char* name(Format format) {
  return format == Format::kNvfp4 ? "nvfp4" : "mxfp4";
}

ProblemData::ProblemData(const ProblemShape& s, std::uint64_t seed)
    : shape(s),
      a(static_cast<std::size_t>(s.m) * static_cast<std::size_t>(s.a_stride)),
      dense(static_cast<std::size_t>(s.n) * static_cast<std::size_t>(s.k)),
      codes(prepared_extent(s.format, s.n, s.k).codes_bytes),
      scales(prepared_extent(s.format, s.n, s.k).scales_bytes) {
  fill_activations<<<1024, 256>>>(a.data(), s.m, s.k, s.a_stride, seed);
  if (s.nan_and_inf) plant_nan_and_inf<<<1, 1>>>(a.data(), s.m, s.k, s.a_stride);

  DeviceBuffer<std::uint8_t> raw_codes(static_cast<std::size_t>(s.n) * static_cast<std::size_t>(s.k / 2));
  DeviceBuffer<std::uint8_t> raw_scales(canonical_scale_count(s));
  fill_codes<<<1024, 256>>>(raw_codes.data(), static_cast<std::int64_t>(raw_codes.size()), s.k, seed);
  fill_scales<<<1024, 256>>>(s.format, raw_scales.data(), static_cast<std::int64_t>(raw_scales.size()), seed);
  CanonicalWeights w{raw_codes.data(), raw_scales.data(), s.n, s.k, s.format, s.swizzled_scales};
  dequantise<<<1024, 256>>>(w, dense.data());
  PINCH_CUDA_CHECK(cudaGetLastError());

  codes.fill_bytes(0xA5);
  scales.fill_bytes(0xA5);
  DeviceBuffer<PrepareReport> device_report(1);
  PINCH_CUDA_CHECK(prepare_weights_device(w, codes.data(), scales.data(), device_report.data(), nullptr));
  const PrepareReport report = device_report.download()[0];
  const PrepareStatus status = prepare_status(s.format, report);
  require(status == PrepareStatus::kOk, describe(status), s);
  gemm_bf16_fp4::sm90::PrepareReport host_report{};
  acc_exponent = gemm_bf16_fp4::sm90::acc_exponent(s.format, report.max_ue8m0);

  if (static_cast<std::int64_t>(s.n) * s.k > (1 << 22)) return;
  const auto host_codes = raw_codes.download(), host_scales = raw_scales.download();
  w.codes = host_codes.data();
  w.scales = host_scales.data();
  std::vector<std::uint8_t> prepared_codes(codes.size()), prepared_scales(scales.size());
  require(prepare_weights_host(w, prepared_codes.data(), prepared_scales.data(), &host_report) == PrepareStatus::kOk,
          "the host refuses what the device takes", s);
  require(std::memcmp(&host_report, &report, sizeof report) == 0, "host and device report differently", s);
  require(prepared_codes == codes.download() && prepared_scales == scales.download(),
          "host and device prepare differently", s);
}

void ProblemData::compute_reference(int m, int m_step) {
  expected =
      DeviceBuffer<double>(static_cast<std::size_t>((m + m_step - 1) / m_step) * static_cast<std::size_t>(shape.n));
  reference<<<2048, 256>>>(a.data(), shape.a_stride, dense.data(), static_cast<double>(kAlpha), m, shape.n, shape.k,
                           m_step, expected.data());
  PINCH_CUDA_CHECK(cudaGetLastError());
  PINCH_CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace pinch::gpu_test
