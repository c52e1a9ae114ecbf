// Checks and times the streaming kernel on a GPU. Usage: stream_dev check | reduced | time CSV [quick] | repeat | one
// TACTIC M N K
//   check    every instance x tactic x odd problem against an FP64 reference; redzones; preparation host = device
//   reduced  a few problems, for compute-sanitizer
//   repeat   60 runs of every tactic, bitwise
//   time     cold-L2 graph replays of every tactic over m x shapes; CSV rows; the best per problem on stdout
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/prepare.cuh"
#include "tests/gpu/stream_instances.h"

using namespace pinch::gemm_bf16_fp4::sm90;

#define CUDA_CHECK(call)                                                                          \
  do {                                                                                            \
    const cudaError_t e_ = (call);                                                                \
    if (e_ != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); \
      std::exit(1);                                                                               \
    }                                                                                             \
  } while (0)

namespace {

template <Format F, int... Part>
std::vector<StreamEntry> gather(std::integer_sequence<int, Part...>) {
  std::vector<StreamEntry> v;
  for (const auto part : {stream_entries<F, Part>()...}) v.insert(v.end(), part.begin(), part.end());
  return v;
}

const std::vector<StreamEntry>& entries(Format f) {
  static const auto nvfp4 = gather<Format::kNvfp4>(std::make_integer_sequence<int, kStreamParts>{});
  static const auto mxfp4 = gather<Format::kMxfp4>(std::make_integer_sequence<int, kStreamParts>{});
  return f == Format::kNvfp4 ? nvfp4 : mxfp4;
}

const char* name(Format f) {
  return f == Format::kNvfp4 ? "nvfp4" : "mxfp4";
}

template <class T>
struct DeviceBuffer {
  T* data = nullptr;
  std::size_t size = 0;
  explicit DeviceBuffer(std::size_t count) : size(count) {
    CUDA_CHECK(cudaMalloc(&data, std::max<std::size_t>(count, 1) * sizeof(T)));
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data); }
  void upload(const T* from) { CUDA_CHECK(cudaMemcpy(data, from, size * sizeof(T), cudaMemcpyHostToDevice)); }
  std::vector<T> download() const {
    std::vector<T> v(size);
    CUDA_CHECK(cudaMemcpy(v.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
  void fill(int byte) { CUDA_CHECK(cudaMemset(data, byte, size * sizeof(T))); }
};

/// Random canonical weights. Scales cover zeros and E4M3 subnormals now and then.
struct HostWeights {
  std::vector<std::uint8_t> codes, scales;
  CanonicalWeights view;
  HostWeights(Format f, int n, int k, bool swizzled, std::uint64_t seed) {
    std::mt19937_64 rng(seed);
    codes.resize(static_cast<std::size_t>(n) * (k / 2));
    for (auto& c : codes) c = static_cast<std::uint8_t>(rng() >> 24);
    const int groups = k / group_size(f);
    const std::size_t count = swizzled ? static_cast<std::size_t>((n + 127) / 128 * 128) * ((groups + 3) / 4 * 4)
                                       : static_cast<std::size_t>(n) * groups;
    scales.resize(count);
    for (auto& s : scales) {
      const auto r = rng() >> 20;
      if (f == Format::kNvfp4) {
        s = static_cast<std::uint8_t>(r % 64 == 0 ? (r >> 8) % 8 : 0x28 + (r >> 8) % 0x28);
      } else {
        s = static_cast<std::uint8_t>(118 + (r >> 8) % 10);
      }
    }
    view = {codes.data(), scales.data(), n, k, f, swizzled};
  }
};

std::vector<__nv_bfloat16> random_activations(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<__nv_bfloat16> a(count);
  for (auto& v : a) v = __float2bfloat16(normal(rng));
  return a;
}

__device__ double code_value(unsigned c) {
  const double magnitude[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
  return c & 8 ? -magnitude[c & 7] : magnitude[c & 7];
}

__device__ double scale_value(Format f, unsigned s) {
  if (f == Format::kMxfp4) return exp2(static_cast<double>(s) - 127);
  const unsigned e = s >> 3 & 15, m = s & 7;
  return e == 0 ? m * exp2(-9.0) : (8 + m) * exp2(static_cast<double>(e) - 10);
}

/// FP64 reference on the canonical weights; one thread an output.
__global__ void reference_kernel(CanonicalWeights w, const __nv_bfloat16* a, std::int64_t lda, int m, float alpha,
                                 double* out) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i >= static_cast<long long>(m) * w.n) return;
  const int row = static_cast<int>(i / w.n), col = static_cast<int>(i % w.n);
  double sum = 0;
  for (int g = 0; g < w.k / group_size(w.format); ++g) {
    const double s = scale_value(w.format, canonical_scale(w, col, g));
    for (int j = 0; j < group_size(w.format); ++j) {
      const int kk = g * group_size(w.format) + j;
      const unsigned byte = w.codes[static_cast<std::size_t>(col) * (w.k / 2) + kk / 2];
      sum += code_value(kk % 2 ? byte >> 4 : byte & 15) * s * static_cast<double>(__bfloat162float(a[row * lda + kk]));
    }
  }
  out[i] = sum * static_cast<double>(alpha);
}

/// Device copies of one weight matrix, canonical and prepared (by the device; compared with the host's).
struct Weights {
  HostWeights host;
  DeviceBuffer<std::uint8_t> raw_codes, raw_scales, codes, scales;
  CanonicalWeights view;
  float acc_scale = 0;
  Weights(Format f, int n, int k, bool swizzled, std::uint64_t seed, bool compare)
      : host(f, n, k, swizzled, seed),
        raw_codes(host.codes.size()),
        raw_scales(host.scales.size()),
        codes(prepared_extent(f, n, k).codes_bytes),
        scales(prepared_extent(f, n, k).scales_bytes),
        view(host.view) {
    raw_codes.upload(host.codes.data());
    raw_scales.upload(host.scales.data());
    view.codes = raw_codes.data;
    view.scales = raw_scales.data;
    DeviceBuffer<PrepareReport> report(1);
    codes.fill(0xA5);
    scales.fill(0xA5);
    CUDA_CHECK(prepare_weights_device(view, codes.data, scales.data, report.data, nullptr));
    const PrepareReport r = report.download()[0];
    if (prepare_status(f, r) != PrepareStatus::kOk)
      std::printf("FAIL prepare: %s\n", describe(prepare_status(f, r))), std::exit(1);
    acc_scale = std::ldexp(1.f, acc_exponent(f, r.max_ue8m0));
    if (compare) {
      std::vector<std::uint8_t> c(codes.size), s(scales.size);
      PrepareReport h{};
      if (prepare_weights_host(host.view, c.data(), s.data(), &h) != PrepareStatus::kOk ||
          std::memcmp(&h, &r, sizeof h) != 0 || c != codes.download() || s != scales.download()) {
        std::printf("FAIL prepare: host and device differ at n=%d k=%d %s\n", n, k, name(f));
        std::exit(1);
      }
    }
  }
};

/// Every legal tactic of every instance for this problem.
std::vector<std::pair<StreamTactic, const StreamEntry*>> tactics_for(const StreamArgs& a, Format f,
                                                                     const StreamDevice& d, bool exact_blocks) {
  std::vector<std::pair<StreamTactic, const StreamEntry*>> v;
  for (const StreamEntry& e : entries(f)) {
    if (exact_blocks && e.instance.m_blocks != (a.m <= 8 ? 1 : a.m <= 16 ? 2 : 4)) continue;
    for (int bps : {1, 2, 4}) {
      for (int split : {1, 2, 4, 8}) {
        for (int balance : {0, 1}) {
          if (e.instance.warps_per_sm % bps != 0) continue;
          const StreamTactic t{.m_blocks = e.instance.m_blocks,
                               .row_tiles = e.instance.row_tiles,
                               .in_flight = e.instance.in_flight,
                               .warps = e.instance.warps_per_sm / bps,
                               .blocks_per_sm = bps,
                               .k_warps = e.instance.k_warps,
                               .split_k = split,
                               .balance = balance};
          if (illegal(t, a, d) == nullptr) v.emplace_back(t, &e);
        }
      }
    }
  }
  return v;
}

struct Problem {
  int m, n, k;
};

/// Checks every tactic on one problem; returns how many checks failed.
int check_problem(const Problem& p, Format f, const StreamDevice& d, std::uint64_t seed, bool special, int* checks,
                  int max_tactics) {
  const bool swizzled = seed % 2 == 1;
  Weights w(f, p.n, p.k, swizzled, seed, true);
  const std::int64_t lda = p.k + 8 * static_cast<int>(seed % 3);
  auto a_host = random_activations(static_cast<std::size_t>(p.m) * lda, seed + 1);
  for (int r = 0; r < p.m; ++r)  // what lies between rows must not be read into results
    for (std::int64_t c = p.k; c < lda; ++c) a_host[r * lda + c] = __float2bfloat16(NAN);
  if (special) {
    a_host[0] = __float2bfloat16(INFINITY);
    if (p.m > 1) a_host[lda + p.k - 1] = __float2bfloat16(NAN);
  }
  DeviceBuffer<__nv_bfloat16> a(a_host.size());
  a.upload(a_host.data());
  const float alpha = 0.37f;
  DeviceBuffer<double> ref(static_cast<std::size_t>(p.m) * p.n);
  reference_kernel<<<static_cast<unsigned>((ref.size + 127) / 128), 128>>>(w.view, a.data, lda, p.m, alpha, ref.data);
  CUDA_CHECK(cudaGetLastError());
  const auto want = ref.download();

  int failed = 0, used = 0;
  for (const bool f32 : {false, true}) {
    const std::int64_t ldo = p.n + 8 * static_cast<int>(seed % 2);
    const std::size_t element = f32 ? 4 : 2, guard = 4096;
    const std::size_t bytes = static_cast<std::size_t>(p.m) * ldo * element;
    DeviceBuffer<std::uint8_t> out(bytes + 2 * guard);
    StreamArgs args{.a = a.data,
                    .lda = lda,
                    .codes = w.codes.data,
                    .scales = w.scales.data,
                    .out = out.data + guard,
                    .ldo = ldo,
                    .workspace = nullptr,
                    .m = p.m,
                    .n = p.n,
                    .k = p.k,
                    .alpha = alpha,
                    .acc_scale = w.acc_scale,
                    .out_f32 = f32};
    for (const auto& [t, entry] : tactics_for(args, f, d, false)) {
      if (max_tactics > 0 && used++ % max_tactics != static_cast<int>(seed % max_tactics)) continue;
      const std::size_t ws = stream_workspace_bytes(t, p.n, d);
      DeviceBuffer<std::uint8_t> workspace(ws + 2 * guard);
      workspace.fill(0xFF);
      if (ws > 0) CUDA_CHECK(cudaMemset(workspace.data + guard, 0, kFlagBytes));
      out.fill(0xFF);
      args.workspace = workspace.data + guard;
      CUDA_CHECK(entry->launch(t, args, d, nullptr));
      CUDA_CHECK(cudaDeviceSynchronize());
      ++*checks;
      const auto got = out.download();
      const char* why = nullptr;
      double err = 0, norm = 0;
      for (std::size_t i = 0; i < guard; ++i)
        if (got[i] != 0xFF || got[guard + bytes + i] != 0xFF) why = "redzone written";
      const auto ws_after = workspace.download();
      for (std::size_t i = 0; i < guard; ++i)
        if (ws_after[i] != 0xFF || ws_after[guard + ws + i] != 0xFF) why = "workspace redzone written";
      for (std::size_t i = 0; ws > 0 && i < kFlagBytes; ++i)
        if (ws_after[guard + i] != 0) why = "flags not reset";
      for (int r = 0; r < p.m && !why; ++r) {
        for (std::int64_t c = 0; c < ldo; ++c) {
          const std::uint8_t* at = got.data() + guard + (r * ldo + c) * element;
          if (c >= p.n) {
            for (std::size_t i = 0; i < element; ++i)
              if (at[i] != 0xFF) why = "gap between rows written";
            continue;
          }
          float v;
          if (f32) {
            std::memcpy(&v, at, 4);
          } else {
            __nv_bfloat16 h;
            std::memcpy(&h, at, 2);
            v = __bfloat162float(h);
          }
          const double x = want[static_cast<std::size_t>(r) * p.n + c];
          if (std::isnan(x) != std::isnan(v) || std::isinf(x) != std::isinf(v) ||
              (std::isinf(x) && (x > 0) != (v > 0))) {
            why = "inf or nan in the wrong place, or an output not written";
            break;
          }
          if (!std::isfinite(x)) continue;
          err += (v - x) * (v - x);
          norm += x * x;
        }
      }
      const double l2 = norm > 0 ? std::sqrt(err / norm) : 0;
      const double limit = f32 ? 1e-5 * std::sqrt(static_cast<double>(p.k)) : 2.5e-3;
      if (!why && !(l2 <= limit)) why = "error too large";
      if (why) {
        if (failed++ < 4)
          std::printf("FAIL %s m=%d n=%d k=%d f32=%d [%s]: %s (l2 %.3g)\n", name(f), p.m, p.n, p.k, f32,
                      to_string(t).c_str(), why, l2);
      }
    }
  }
  return failed;
}

int run_checks(const StreamDevice& d, bool reduced) {
  int failed = 0, checks = 0, problems = 0;
  std::uint64_t seed = 1;
  const int ms_all[] = {1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 25, 31, 32};
  const std::pair<int, int> shapes_all[] = {{8, 32},     {16, 64},    {24, 96},    {40, 160}, {64, 1024}, {72, 1056},
                                            {136, 4128}, {1000, 992}, {264, 2048}, {8, 8192}, {4104, 96}, {520, 6656}};
  for (Format f : {Format::kNvfp4, Format::kMxfp4}) {
    int i = 0;
    for (const auto& [n, k] : shapes_all) {
      for (int j = 0; j < (reduced ? 1 : 4); ++j) {
        if (reduced && (i % 3 != 1 || n * k > 100000)) {
          ++i;
          continue;
        }
        const int m = ms_all[(i * 5 + j * 3) % 13];
        ++i;
        ++problems;
        failed += check_problem({m, n, k}, f, d, ++seed, j == 3, &checks, reduced ? 31 : 3);
      }
    }
    if (!reduced) {
      for (const Problem& p :
           {Problem{1, 4096, 4096}, Problem{8, 19968, 6656}, Problem{32, 4096, 4096}, Problem{16, 19968, 4096}}) {
        ++problems;
        failed += check_problem(p, f, d, ++seed, false, &checks, 31);
      }
    }
  }
  std::printf("%s: %d problems, %d checks, %d failed\n", reduced ? "reduced check" : "check", problems, checks, failed);
  return failed;
}

__global__ void compare_kernel(const std::uint32_t* a, const std::uint32_t* b, std::size_t count,
                               unsigned long long* differ) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x)
    if (a[i] != b[i]) atomicAdd(differ, 1ull);
}

int run_repeats(const StreamDevice& d) {
  int failed = 0, tactics = 0;
  for (Format f : {Format::kNvfp4, Format::kMxfp4}) {
    for (const Problem& p :
         {Problem{1, 4096, 4096}, Problem{7, 1000, 6656}, Problem{16, 1000, 4096}, Problem{32, 1000, 4128}}) {
      Weights w(f, p.n, p.k, false, 77, false);
      const auto a_host = random_activations(static_cast<std::size_t>(p.m) * p.k, 78);
      DeviceBuffer<__nv_bfloat16> a(a_host.size());
      a.upload(a_host.data());
      const std::size_t count = static_cast<std::size_t>(p.m) * p.n;
      DeviceBuffer<float> out(count), first(count), workspace((32u << 20) / 4);
      workspace.fill(0);
      DeviceBuffer<unsigned long long> differ(1);
      StreamArgs args{.a = a.data,
                      .lda = p.k,
                      .codes = w.codes.data,
                      .scales = w.scales.data,
                      .out = out.data,
                      .ldo = p.n,
                      .workspace = workspace.data,
                      .m = p.m,
                      .n = p.n,
                      .k = p.k,
                      .alpha = 1.f,
                      .acc_scale = w.acc_scale,
                      .out_f32 = true};
      int index = 0;
      for (const auto& [t, entry] : tactics_for(args, f, d, true)) {
        if (index++ % 5 != 0) continue;
        differ.fill(0);
        for (int i = 0; i < 60; ++i) {
          args.out = i == 0 ? first.data : out.data;
          CUDA_CHECK(cudaMemsetAsync(args.out, 0xFF, count * 4));
          CUDA_CHECK(cudaMemsetAsync(workspace.data + kFlagBytes / 4, i % 2 ? 0xFF : 0x11, 4 << 20));
          CUDA_CHECK(entry->launch(t, args, d, nullptr));
          if (i > 0)
            compare_kernel<<<132, 256>>>(reinterpret_cast<std::uint32_t*>(first.data),
                                         reinterpret_cast<std::uint32_t*>(out.data), count, differ.data);
        }
        ++tactics;
        if (differ.download()[0] != 0)
          ++failed, std::printf("FAIL repeat [%s] %s m=%d\n", to_string(t).c_str(), name(f), p.m);
      }
    }
  }
  std::printf("repeat: %d tactic x problem, 60 runs each, %d not bitwise equal\n", tactics, failed);
  return failed;
}

// ---- timing ---------------------------------------------------------------------------------------------------------

__global__ void null_kernel() {}

__global__ void flush_kernel(const uint4* p, std::size_t count, unsigned* sink) {
  unsigned x = 0;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    const uint4 v = p[i];
    x ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (x == 0x12345678u) *sink = x;
}

template <int Loads>
__global__ void read_kernel(const uint4* p, std::size_t count, unsigned* sink) {
  unsigned x = 0;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride * Loads) {
    uint4 v[Loads];
#pragma unroll
    for (int j = 0; j < Loads; ++j) v[j] = i + j * stride < count ? __ldg(p + i + j * stride) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < Loads; ++j) x ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  if (x == 0x12345678u) *sink = x;
}

struct Stats {
  double median, min, q1, q3;
  int samples;
};

Stats stats_of(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t n = v.size();
  return {v[n / 2], v[0], v[n / 4], v[3 * n / 4], static_cast<int>(n)};
}

class Timer {
 public:
  Timer() : flush_(256ull << 20), sink_(1) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&begin_));
    CUDA_CHECK(cudaEventCreate(&end_));
    std::vector<std::uint8_t> noise(flush_.size);
    std::mt19937_64 rng(5);
    for (std::size_t i = 0; i < noise.size(); i += 8) {
      const std::uint64_t r = rng();
      std::memcpy(noise.data() + i, &r, 8);
    }
    flush_.upload(noise.data());
  }
  cudaGraphExec_t capture(const std::function<void(cudaStream_t)>& work) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work(stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
  }
  double once(cudaGraphExec_t exec) {
    flush_kernel<<<1056, 512, 0, stream>>>(reinterpret_cast<const uint4*>(flush_.data), flush_.size / 16, sink_.data);
    CUDA_CHECK(cudaEventRecord(begin_, stream));
    CUDA_CHECK(cudaGraphLaunch(exec, stream));
    CUDA_CHECK(cudaEventRecord(end_, stream));
    CUDA_CHECK(cudaEventSynchronize(end_));
    float ms;
    CUDA_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
    return ms * 1e3;
  }
  Stats measure(const std::function<void(cudaStream_t)>& work, int samples) {
    const cudaGraphExec_t exec = capture(work);
    for (int i = 0; i < 3; ++i) once(exec);
    std::vector<double> v;
    for (int i = 0; i < samples; ++i) v.push_back(once(exec));
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    return stats_of(v);
  }
  cudaStream_t stream;
  unsigned* sink() { return sink_.data; }

 private:
  DeviceBuffer<std::uint8_t> flush_;
  DeviceBuffer<unsigned> sink_;
  cudaEvent_t begin_, end_;
};

/// cuBLAS, opened at run time; absent when there is none.
struct Cublas {
  using Create = int (*)(void**);
  using SetStream = int (*)(void*, cudaStream_t);
  using SetWorkspace = int (*)(void*, void*, std::size_t);
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                       const void*, void*, int, int, int, int);
  void* handle = nullptr;
  SetStream set_stream = nullptr;
  Gemm gemm = nullptr;
  explicit Cublas(cudaStream_t stream) {
    const char* path = std::getenv("PINCH_CUBLAS");
    void* lib = dlopen(path ? path : "libcublas.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (!lib) {
      std::printf("no cuBLAS: %s\n", dlerror());
      return;
    }
    const auto create = reinterpret_cast<Create>(dlsym(lib, "cublasCreate_v2"));
    set_stream = reinterpret_cast<SetStream>(dlsym(lib, "cublasSetStream_v2"));
    const auto set_workspace = reinterpret_cast<SetWorkspace>(dlsym(lib, "cublasSetWorkspace_v2"));
    gemm = reinterpret_cast<Gemm>(dlsym(lib, "cublasGemmEx"));
    void* ws;
    CUDA_CHECK(cudaMalloc(&ws, 32 << 20));
    if (create(&handle) != 0 || set_stream(handle, stream) != 0 || set_workspace(handle, ws, 32 << 20) != 0)
      handle = nullptr;
  }
  bool run(const __nv_bfloat16* w, const __nv_bfloat16* a, __nv_bfloat16* out, int m, int n, int k) {
    const float one = 1, zero = 0;
    constexpr int kBf16 = 14, kCompute32F = 68;
    return gemm(handle, 1, 0, n, m, k, &one, w, kBf16, k, a, kBf16, k, &zero, out, kBf16, n, kCompute32F, -1) == 0;
  }
};

void run_times(const StreamDevice& d, const char* csv_path, int quick) {
  FILE* csv = std::fopen(csv_path, "w");
  std::fprintf(csv, "n,k,m,format,tactic,median_us,min,q1,q3,samples,null_us,pure_read_us,cublas_us\n");
  Timer timer;
  Cublas cublas(timer.stream);
  const double null_us = timer.measure([](cudaStream_t s) { null_kernel<<<1, 32, 0, s>>>(); }, 41).median;
  std::printf("null %.2f us; resident clusters of 2 4 8: %d %d %d\n", null_us, d.clusters[1], d.clusters[2],
              d.clusters[3]);
  const std::pair<int, int> shapes[] = {{4096, 4096}, {19968, 4096}, {19968, 6656}};
  for (const auto& [n, k] : shapes) {
    DeviceBuffer<__nv_bfloat16> dense(static_cast<std::size_t>(n) * k);
    {
      const auto some = random_activations(1 << 20, 9);
      for (std::size_t at = 0; at < dense.size; at += some.size())
        CUDA_CHECK(cudaMemcpy(dense.data + at, some.data(), std::min(some.size(), dense.size - at) * 2,
                              cudaMemcpyHostToDevice));
    }
    const auto a_host = random_activations(static_cast<std::size_t>(32) * k, 10);
    DeviceBuffer<__nv_bfloat16> a(a_host.size());
    a.upload(a_host.data());
    DeviceBuffer<__nv_bfloat16> out(static_cast<std::size_t>(32) * n);
    DeviceBuffer<float> workspace((64u << 20) / 4);
    workspace.fill(0);
    for (Format f : {Format::kNvfp4, Format::kMxfp4}) {
      if (quick && f == Format::kMxfp4) continue;
      Weights w(f, n, k, false, 3, false);
      const std::size_t bytes = w.codes.size + w.scales.size;
      double pure = 1e9;
      {
        DeviceBuffer<std::uint8_t> both(bytes);
        CUDA_CHECK(cudaMemcpy(both.data, w.codes.data, w.codes.size, cudaMemcpyDeviceToDevice));
        CUDA_CHECK(cudaMemcpy(both.data + w.codes.size, w.scales.data, w.scales.size, cudaMemcpyDeviceToDevice));
        for (int blocks : {528, 1056, 2112})
          for (int threads : {256, 512, 1024}) {
            const auto* p = reinterpret_cast<const uint4*>(both.data);
            pure = std::min(pure, timer
                                      .measure(
                                          [&](cudaStream_t s) {
                                            read_kernel<4><<<blocks, threads, 0, s>>>(p, bytes / 16, timer.sink());
                                          },
                                          15)
                                      .median);
            pure = std::min(pure, timer
                                      .measure(
                                          [&](cudaStream_t s) {
                                            read_kernel<8><<<blocks, threads, 0, s>>>(p, bytes / 16, timer.sink());
                                          },
                                          15)
                                      .median);
          }
      }
      for (int m : {1, 2, 4, 8, 16, 32}) {
        if (quick && (m == 2 || m == 4)) continue;
        const double cublas_us =
            cublas.handle
                ? timer.measure([&](cudaStream_t) { cublas.run(dense.data, a.data, out.data, m, n, k); }, 21).median
                : -1;
        StreamArgs args{.a = a.data,
                        .lda = k,
                        .codes = w.codes.data,
                        .scales = w.scales.data,
                        .out = out.data,
                        .ldo = n,
                        .workspace = workspace.data,
                        .m = m,
                        .n = n,
                        .k = k,
                        .alpha = 1.f,
                        .acc_scale = w.acc_scale,
                        .out_f32 = false};
        auto candidates = tactics_for(args, f, d, true);
        std::vector<std::pair<double, std::size_t>> order;
        for (std::size_t i = 0; i < candidates.size(); ++i) {
          const auto& [t, entry] = candidates[i];
          const Stats s = timer.measure(
              [&, t = t, entry = entry](cudaStream_t st) { CUDA_CHECK(entry->launch(t, args, d, st)); }, 11);
          std::fprintf(csv, "%d,%d,%d,%s,%s,%.3f,%.3f,%.3f,%.3f,%d,%.3f,%.3f,%.3f\n", n, k, m, name(f),
                       to_string(t).c_str(), s.median, s.min, s.q1, s.q3, s.samples, null_us, pure, cublas_us);
          order.emplace_back(s.median, i);
        }
        std::sort(order.begin(), order.end());
        std::printf("%5dx%d %s m=%-2d pure %.2f cublas %.2f (%zu tactics)", n, k, name(f), m, pure, cublas_us,
                    candidates.size());
        for (std::size_t i = 0; i < std::min<std::size_t>(3, order.size()); ++i) {
          const auto& [t, entry] = candidates[order[i].second];
          const Stats s = timer.measure(
              [&, t = t, entry = entry](cudaStream_t st) { CUDA_CHECK(entry->launch(t, args, d, st)); }, 41);
          std::fprintf(csv, "%d,%d,%d,%s,%s,%.3f,%.3f,%.3f,%.3f,%d,%.3f,%.3f,%.3f\n", n, k, m, name(f),
                       to_string(t).c_str(), s.median, s.min, s.q1, s.q3, s.samples, null_us, pure, cublas_us);
          std::printf(" | %.2f [%s]", s.median, to_string(t).c_str() + 7);
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  }
  std::fclose(csv);
}

/// One launch of one tactic, for a profiler.
void run_one(const StreamDevice& d, const char* tactic, int m, int n, int k) {
  StreamTactic t;
  if (!parse(tactic, &t)) std::printf("no tactic: %s\n", tactic), std::exit(2);
  Weights w(Format::kNvfp4, n, k, false, 3, false);
  const auto a_host = random_activations(static_cast<std::size_t>(m) * k, 10);
  DeviceBuffer<__nv_bfloat16> a(a_host.size()), out(static_cast<std::size_t>(m) * n);
  a.upload(a_host.data());
  DeviceBuffer<float> workspace((64u << 20) / 4);
  workspace.fill(0);
  StreamArgs args{.a = a.data,
                  .lda = k,
                  .codes = w.codes.data,
                  .scales = w.scales.data,
                  .out = out.data,
                  .ldo = n,
                  .workspace = workspace.data,
                  .m = m,
                  .n = n,
                  .k = k,
                  .alpha = 1.f,
                  .acc_scale = w.acc_scale,
                  .out_f32 = false};
  for (const StreamEntry& e : entries(Format::kNvfp4)) {
    if (!(e.instance == instance_of(t))) continue;
    CUDA_CHECK(e.launch(t, args, d, nullptr));
    CUDA_CHECK(cudaDeviceSynchronize());
    return;
  }
  std::printf("no instance for %s\n", tactic);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  StreamDevice d{};
  CUDA_CHECK((query_stream_device<Format::kNvfp4, StreamInstance{1, 1, 4, 16, 32}>(&d)));
  const std::string mode = argv[1];
  if (mode == "check") return run_checks(d, false) != 0;
  if (mode == "reduced") return run_checks(d, true) != 0;
  if (mode == "repeat") return run_repeats(d) != 0;
  if (mode == "one" && argc > 5) {
    run_one(d, argv[2], std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]));
    return 0;
  }
  if (mode == "time" && argc > 2) {
    run_times(d, argv[2], argc > 3 ? std::atoi(argv[3]) : 0);
    return 0;
  }
  return 2;
}
