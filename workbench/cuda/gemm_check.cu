#include <cmath>
#include <cstdio>

#include "workbench/cuda/gemm_check.h"

namespace pinch::cuda {

namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr double kLambda = 8;
constexpr double kF32Roundoff = 0x1p-24;

/// What compare() brings back. A worst place is a ratio of error to tolerance, as a float's bits, over an index.
struct Found {
  double error2, reference2;
  unsigned long long worst_element;  // index: row of the reference * n + channel
  unsigned long long worst_block;    // index: row * blocks + block
};

struct Rows {
  std::int64_t at[GemmCheck::kReferenceRows];
  int count;
};

/// Evenly spread, the first and the last among them.
__host__ __device__ Rows reference_rows(std::int64_t m) {
  Rows rows{};
  rows.count = static_cast<int>(m < GemmCheck::kReferenceRows ? m : GemmCheck::kReferenceRows);
  for (int i = 0; i < rows.count; ++i) rows.at[i] = rows.count == 1 ? 0 : i * (m - 1) / (rows.count - 1);
  return rows;
}

__device__ double sign_of(std::int64_t channel) {
  auto x = static_cast<std::uint64_t>(channel) + 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return (x >> 40 & 1) != 0 ? 1.0 : -1.0;
}

__device__ double warp_sum(double value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

__device__ double element(const void* out, OutputType output, std::int64_t at) {
  return output == OutputType::kBf16 ? to_f32(static_cast<const Bf16*>(out)[at]) : static_cast<const float*>(out)[at];
}

/// Keeps the larger ratio; a NaN counts as infinite.
__device__ void keep_worst(unsigned long long* worst, double ratio, std::int64_t index) {
  if (ratio <= 1) return;
  const float shown = isfinite(ratio) ? static_cast<float>(fmin(ratio, 1e30)) : __int_as_float(0x7f800000);
  atomicMax(worst, static_cast<unsigned long long>(__float_as_uint(shown)) << 32 | static_cast<std::uint32_t>(index));
}

/// One warp a channel, all reference rows at once.
__global__ void compute_reference(GemmOperands p, Rows rows, double* reference, double* magnitude) {
  const std::int64_t channel = (blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x) / kWarp;
  if (channel >= p.n) return;
  const int lane = threadIdx.x % kWarp;
  double sum[GemmCheck::kReferenceRows] = {}, absolute[GemmCheck::kReferenceRows] = {};
  for (std::int64_t x = lane; x < p.k; x += kWarp) {
    const double weight = to_f32(p.dense[channel * p.k + x]);
#pragma unroll
    for (int i = 0; i < GemmCheck::kReferenceRows; ++i) {
      if (i >= rows.count) break;
      const double product = weight * to_f32(p.a[rows.at[i] * p.k + x]);
      sum[i] += product;
      absolute[i] += fabs(product);
    }
  }
#pragma unroll
  for (int i = 0; i < GemmCheck::kReferenceRows; ++i) {
    if (i >= rows.count) break;
    const double total = warp_sum(sum[i]), size = warp_sum(absolute[i]);
    if (lane == 0) {
      reference[i * p.n + channel] = total * p.alpha;
      magnitude[i * p.n + channel] = size * fabs(p.alpha);
    }
  }
}

/// Of each block of channels: signed sums of its weights, [blocks, k], and the sum of their squares.
__global__ void sum_weights(GemmOperands p, double* sums, double* squares) {
  const std::int64_t x = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (x >= p.k) return;
  const std::int64_t block = blockIdx.y, first = block * GemmCheck::kBlock;
  const std::int64_t end = min(first + GemmCheck::kBlock, p.n);
  double sum = 0, square = 0;
  for (std::int64_t channel = first; channel < end; ++channel) {
    const double weight = static_cast<double>(to_f32(p.dense[channel * p.k + x])) * p.alpha;
    sum += sign_of(channel) * weight;
    square += weight * weight;
  }
  sums[block * p.k + x] = sum;
  atomicAdd(squares + block, square);
}

/// One warp a row and block.
__global__ void project(GemmOperands p, const double* sums, const double* squares, double* projection,
                        double* rounding) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t block = blockIdx.y * static_cast<std::int64_t>(blockDim.x / kWarp) + threadIdx.x / kWarp;
  const std::int64_t count = (p.n + GemmCheck::kBlock - 1) / GemmCheck::kBlock;
  if (block >= count) return;
  double sum = 0, a_square = 0;
  for (std::int64_t x = threadIdx.x % kWarp; x < p.k; x += kWarp) {
    const double value = to_f32(p.a[row * p.k + x]);
    sum += value * sums[block * p.k + x];
    a_square += value * value;
  }
  sum = warp_sum(sum);
  a_square = warp_sum(a_square);
  if (threadIdx.x % kWarp != 0) return;
  projection[row * count + block] = sum;
  rounding[row * count + block] = sqrt(static_cast<double>(p.k)) * kF32Roundoff * sqrt(a_square * squares[block]);
}

__global__ void compare_elements(GemmOperands p, Rows rows, const double* reference, const double* magnitude,
                                 const void* out, double roundoff, Found* found) {
  const std::int64_t channel = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t i = blockIdx.y;
  double error2 = 0, reference2 = 0;
  if (channel < p.n) {
    const double want = reference[i * p.n + channel], got = element(out, p.output, rows.at[i] * p.n + channel);
    const double tolerance = roundoff * fabs(want) +
                             kLambda * sqrt(static_cast<double>(p.k)) * kF32Roundoff * magnitude[i * p.n + channel] +
                             0x1p-126;
    error2 = (got - want) * (got - want);
    reference2 = want * want;
    const double ratio = fabs(got - want) / tolerance;
    keep_worst(&found->worst_element, isnan(ratio) ? HUGE_VAL : ratio, i * p.n + channel);
  }
  error2 = warp_sum(error2);
  reference2 = warp_sum(reference2);
  if (threadIdx.x % kWarp != 0) return;
  atomicAdd(&found->error2, error2);
  atomicAdd(&found->reference2, reference2);
}

/// One warp a row and block.
__global__ void compare_blocks(GemmOperands p, const double* projection, const double* rounding, const void* out,
                               double roundoff, Found* found) {
  const std::int64_t count = (p.n + GemmCheck::kBlock - 1) / GemmCheck::kBlock;
  const std::int64_t row = blockIdx.x;
  const std::int64_t block = blockIdx.y * static_cast<std::int64_t>(blockDim.x / kWarp) + threadIdx.x / kWarp;
  if (block >= count) return;
  double sum = 0, square = 0;
  for (std::int64_t channel = block * GemmCheck::kBlock + threadIdx.x % kWarp;
       channel < min((block + 1) * GemmCheck::kBlock, p.n); channel += kWarp) {
    const double got = element(out, p.output, row * p.n + channel);
    sum += sign_of(channel) * got;
    square += got * got;
  }
  sum = warp_sum(sum);
  square = warp_sum(square);
  if (threadIdx.x % kWarp != 0) return;
  const std::int64_t at = row * count + block;
  const double tolerance = kLambda * (roundoff * sqrt(square) + rounding[at]) + 0x1p-126;
  const double ratio = fabs(sum - projection[at]) / tolerance;
  keep_worst(&found->worst_block, isnan(ratio) ? HUGE_VAL : ratio, at);
}

double* doubles(const DeviceMemory& memory) {
  return reinterpret_cast<double*>(memory.data());
}

unsigned ceil_div(std::int64_t a, std::int64_t b) {
  return static_cast<unsigned>((a + b - 1) / b);
}

template <class... Arguments>
std::string text(const char* format, Arguments... arguments) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, arguments...);
  return buffer;
}

}  // namespace

Result<GemmCheck> GemmCheck::create(const GemmOperands& operands, int device, cudaStream_t stream) {
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  GemmCheck made;
  made.operands_ = operands;
  made.stream_ = stream;
  const Rows rows = reference_rows(operands.m);
  made.rows_ = rows.count;
  const std::int64_t blocks = made.blocks();
  const auto allocate = [&](DeviceMemory& memory, std::int64_t count) -> Result<void> {
    PINCH_ASSIGN(allocated, DeviceMemory::allocate(device, static_cast<std::size_t>(count) * sizeof(double)));
    memory = std::move(allocated);
    return {};
  };
  DeviceMemory sums, squares;
  PINCH_TRY(allocate(made.reference_, rows.count * operands.n));
  PINCH_TRY(allocate(made.magnitude_, rows.count * operands.n));
  PINCH_TRY(allocate(made.projection_, operands.m * blocks));
  PINCH_TRY(allocate(made.rounding_, operands.m * blocks));
  PINCH_TRY(allocate(made.verdict_, static_cast<std::int64_t>(sizeof(Found) / sizeof(double))));
  PINCH_TRY(allocate(sums, blocks * operands.k));
  PINCH_TRY(allocate(squares, blocks));

  constexpr int kWarps = kThreads / kWarp;
  compute_reference<<<ceil_div(operands.n, kWarps), kThreads, 0, stream>>>(operands, rows, doubles(made.reference_),
                                                                           doubles(made.magnitude_));
  PINCH_TRY(check(cudaMemsetAsync(squares.data(), 0, squares.bytes(), stream), "computing a reference"));
  sum_weights<<<dim3(ceil_div(operands.k, kThreads), static_cast<unsigned>(blocks)), kThreads, 0, stream>>>(
      operands, doubles(sums), doubles(squares));
  project<<<dim3(static_cast<unsigned>(operands.m), ceil_div(blocks, kWarps)), kThreads, 0, stream>>>(
      operands, doubles(sums), doubles(squares), doubles(made.projection_), doubles(made.rounding_));
  PINCH_TRY(check(cudaGetLastError(), "computing a reference"));
  PINCH_TRY(check(cudaStreamSynchronize(stream), "computing a reference"));
  made.operands_.a = nullptr;
  made.operands_.dense = nullptr;
  return std::move(made);
}

Result<OutputVerdict> GemmCheck::compare(const void* out) const {
  const DeviceScope scope(verdict_.device());
  PINCH_TRY(scope.ok());
  const GemmOperands& p = operands_;
  const double roundoff = p.output == OutputType::kBf16 ? 0x1p-8 : kF32Roundoff;
  auto* found = reinterpret_cast<Found*>(verdict_.data());
  PINCH_TRY(check(cudaMemsetAsync(found, 0, sizeof *found, stream_), "comparing an output"));
  constexpr int kWarps = kThreads / kWarp;
  const Rows rows = reference_rows(p.m);
  compare_elements<<<dim3(ceil_div(p.n, kThreads), static_cast<unsigned>(rows_)), kThreads, 0, stream_>>>(
      p, rows, doubles(reference_), doubles(magnitude_), out, roundoff, found);
  compare_blocks<<<dim3(static_cast<unsigned>(p.m), ceil_div(blocks(), kWarps)), kThreads, 0, stream_>>>(
      p, doubles(projection_), doubles(rounding_), out, roundoff, found);
  PINCH_TRY(check(cudaGetLastError(), "comparing an output"));
  Found host{};
  PINCH_TRY(check(cudaMemcpyAsync(&host, found, sizeof host, cudaMemcpyDeviceToHost, stream_), "comparing an output"));
  PINCH_TRY(check(cudaStreamSynchronize(stream_), "comparing an output"));

  OutputVerdict verdict;
  verdict.rel_l2 = host.reference2 > 0 ? std::sqrt(host.error2 / host.reference2) : std::sqrt(host.error2);
  const auto ratio_of = [](unsigned long long packed) {
    const auto bits = static_cast<std::uint32_t>(packed >> 32);
    return bits == 0x7f800000u ? std::string("not finite, or far") : text("%.3g times the tolerance", [&] {
      float ratio = 0;
      static_assert(sizeof ratio == sizeof bits);
      __builtin_memcpy(&ratio, &bits, sizeof ratio);
      return static_cast<double>(ratio);
    }());
  };
  if (host.worst_element != 0) {
    const std::int64_t at = static_cast<std::uint32_t>(host.worst_element);
    verdict.why =
        text("out[%lld, %lld] is off: ", static_cast<long long>(rows.at[at / p.n]), static_cast<long long>(at % p.n)) +
        ratio_of(host.worst_element);
  } else if (host.worst_block != 0) {
    const std::int64_t at = static_cast<std::uint32_t>(host.worst_block);
    const std::int64_t block = at % blocks();
    verdict.why =
        text("row %lld, channels %lld to %lld: the signed sum is off: ", static_cast<long long>(at / blocks()),
             static_cast<long long>(block * kBlock),
             static_cast<long long>(std::min<std::int64_t>(p.n, (block + 1) * kBlock) - 1)) +
        ratio_of(host.worst_block);
  }
  verdict.right = verdict.why.empty();
  return verdict;
}

}  // namespace pinch::cuda
