// Checks and times the wgmma kernel. Usage: wgmma_dev check [quick|tiny] | time FILE.csv [samples [m...]] (MXFP4=1: that format) |
// one m n k core_tile split [samples]
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/instances.h"
#include "kernels/gemm_bf16_fp4/sm90/launch.cuh"

using namespace pinch::gemm_bf16_fp4::sm90;

#define CHECK(call)                                                                                       \
  do {                                                                                                    \
    const cudaError_t error_ = (call);                                                                    \
    if (error_ != cudaSuccess) {                                                                          \
      std::printf("CUDA error %s at %s:%d: %s\n", cudaGetErrorName(error_), __FILE__, __LINE__, #call);   \
      std::fflush(stdout);                                                                                \
      std::exit(1);                                                                                       \
    }                                                                                                     \
  } while (0)

namespace {

int g_sm_count = 0;

__host__ __device__ inline uint32_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return static_cast<uint32_t>(x >> 32);
}

// Canonical weights are a function of the position, so nothing needs storing.
__host__ __device__ inline uint32_t code_at(uint64_t seed, int row, int col) {
  return mix(seed ^ (static_cast<uint64_t>(row) << 24 ^ static_cast<uint64_t>(col) << 1)) & 15u;
}
__host__ __device__ inline uint32_t scale_at(Format f, uint64_t seed, int row, int group) {
  const uint32_t r = mix(seed * 3 + 77 ^ (static_cast<uint64_t>(row) << 24 ^ static_cast<uint64_t>(group) << 1));
  if (f == Format::kNvfp4) return r % 61 == 0 ? r >> 8 & 7u : 0x20u + (r >> 8) % 0x30u;  // some subnormals and zeros
  return 120 + (r >> 8) % 12;
}
constexpr int kLargestUe8m0 = 131;

__device__ double e2m1(uint32_t c) {
  const double magnitude[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
  return c & 8 ? -magnitude[c & 7] : magnitude[c & 7];
}
__device__ double scale_value(Format f, uint32_t s) {
  if (f == Format::kMxfp4) return exp2(static_cast<double>(s) - 127);
  const int e = s >> 3 & 15, m = s & 7;
  return e == 0 ? ldexp(static_cast<double>(m), -9) : ldexp(1.0 + m / 8.0, e - 7);
}

__global__ void fill_activations(__nv_bfloat16* a, int64_t count, uint64_t seed) {
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const float u = (mix(seed + 2 * i) + 0.5f) * 2.3283064e-10f, v = mix(seed + 2 * i + 1) * 2.3283064e-10f;
    a[i] = __float2bfloat16(sqrtf(-2 * logf(fminf(u, 0.9999999f))) * cosf(6.2831853f * v));
  }
}

__global__ void pack_codes(Format f, uint64_t seed, int n, int k, PreparedExtent extent, uint32_t* words) {
  const int64_t count = static_cast<int64_t>(extent.codes_bytes / 4);
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int tile = i / 512, thread = i % 512 / 4, block = i % 4;
    const int row = tile / extent.col_tiles * 64 + 16 * (thread / 32) + thread % 32 / 4;
    const int col = tile % extent.col_tiles * 64 + 16 * block + 2 * (thread % 4);
    uint8_t codes[8];
    for (int a = 0; a < 4; ++a)
      for (int h = 0; h < 2; ++h) {
        const int r = row + 8 * (a & 1), c = col + 8 * (a >> 1) + h;
        uint32_t code = r < n && c < k ? code_at(seed, r, c) : 0;
        const int group = c / group_size(f);
        if (f == Format::kNvfp4 && r < n && c < k && scale_at(f, seed, r, group) == 0) code &= 8;
        codes[2 * a + h] = code;
      }
    words[i] = pack_word(codes);
  }
}

__global__ void pack_scales(Format f, uint64_t seed, int n, int k, PreparedExtent extent, uint8_t* scales) {
  const int groups = extent.col_tiles * 64 / group_size(f);
  const int64_t count = static_cast<int64_t>(extent.row_tiles) * 64 * groups;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int row = i / groups, group = i % groups;
    uint32_t byte = 0;
    if (row < n && group * group_size(f) < k) {
      const uint32_t s = scale_at(f, seed, row, group);
      byte = f == Format::kNvfp4 ? e5m3_from_e4m3(s) : s + 254 - kLargestUe8m0;
    }
    auto* word = reinterpret_cast<uint32_t*>(scales + scale_word_offset_bytes(f, row, group, extent.col_tiles));
    const int in_tile = group % (64 / group_size(f));
    atomicOr(word, place_scale(f, byte, in_tile, row % 16 >= 8));
  }
}

__global__ void dequantise(Format f, uint64_t seed, int n, int k, __nv_bfloat16* w) {
  const int64_t count = static_cast<int64_t>(n) * k;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int row = i / k, col = i % k;
    w[i] = __double2bfloat16(e2m1(code_at(seed, row, col)) * scale_value(f, scale_at(f, seed, row, col / group_size(f))));
  }
}

// Row 1 gets a nan, row 2 an infinity.
__global__ void poison_activations(__nv_bfloat16* a, int stride) {
  a[stride + 5] = __ushort_as_bfloat16(0x7FC0);
  a[2 * stride + 17] = __ushort_as_bfloat16(0x7F80);
}

// FP64 reference: one thread an output (sampled rows of m when `m_step` > 1).
__global__ void reference(const __nv_bfloat16* a, int a_stride, const __nv_bfloat16* w, double alpha, int m, int n, int k,
                          int m_step, double* out) {
  const int64_t count = static_cast<int64_t>((m + m_step - 1) / m_step) * n;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int row = i / n * m_step, col = i % n;
    double sum = 0;
    for (int x = 0; x < k; ++x)
      sum += static_cast<double>(__bfloat162float(a[static_cast<int64_t>(row) * a_stride + x])) *
             static_cast<double>(__bfloat162float(w[static_cast<int64_t>(col) * k + x]));
    out[i] = sum * alpha;
  }
}

struct Comparison {
  double error2;
  double norm2;
  unsigned long long bad;      // finite where it should not be, or the reverse
  unsigned long long touched;  // changed outside
};

__global__ void compare(const void* out, bool f32, const double* expected, int m, int n, int stride, int m_step,
                        int64_t guard, Comparison* c) {
  const int64_t count = 2 * guard + static_cast<int64_t>(m) * stride;
  double error2 = 0, norm2 = 0;
  unsigned long long bad = 0, touched = 0;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t at = i - guard;
    const int row = at >= 0 ? at / stride : -1, col = at >= 0 ? at % stride : 0;
    const bool inside = at >= 0 && row < m && col < n;
    const uint32_t raw = f32 ? static_cast<const uint32_t*>(out)[i] : static_cast<const uint16_t*>(out)[i];
    if (!inside) {
      touched += raw != (f32 ? 0xFFFFFFFFu : 0xFFFFu);
      continue;
    }
    const float got = __uint_as_float(f32 ? raw : raw << 16);
    if (row % m_step != 0) {
      bad += !isfinite(got);
    } else {
      const double want = expected[static_cast<int64_t>(row / m_step) * n + col];
      if (!isfinite(want)) {  // inf and nan must come out as such
        bad += isnan(want) ? !isnan(got) : got != static_cast<float>(want);
        continue;
      }
      bad += !isfinite(got);
      error2 += (got - want) * (got - want);
      norm2 += want * want;
    }
  }
  atomicAdd(&c->error2, error2);
  atomicAdd(&c->norm2, norm2);
  atomicAdd(&c->bad, bad);
  atomicAdd(&c->touched, touched);
}

__global__ void hash_words(const uint32_t* data, int64_t count, unsigned long long* hash) {
  unsigned long long h = 0;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    h += static_cast<unsigned long long>(mix(static_cast<uint64_t>(data[i]) * 0x100000001B3ull + i)) << 16;
  atomicAdd(hash, h);
}

__global__ void null_kernel() {}

__global__ void read_bytes(const uint4* data, int64_t count, uint32_t* sink) {
  uint32_t x = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) {
    const uint4 a = data[i], b = data[i + step], c = data[i + 2 * step], d = data[i + 3 * step];
    x ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < count; i += step) x ^= data[i].x ^ data[i].y ^ data[i].z ^ data[i].w;
  if (x == 0x12345678u) *sink = x;
}

struct Problem {
  Format format;
  int m, n, k;
  int a_stride, out_stride;
};

// Device buffers of one problem, sized for the largest m.
struct Buffers {
  __nv_bfloat16* a = nullptr;
  __nv_bfloat16* w = nullptr;
  uint8_t* codes = nullptr;
  uint8_t* scales = nullptr;
  uint8_t* out = nullptr;  // guard, m * out_stride, guard
  double* expected = nullptr;
  uint8_t* workspace = nullptr;
  size_t workspace_size = 0;
  size_t out_bytes = 0;
  static constexpr int64_t kGuard = 1024;  // elements

  void make(const Problem& p, uint64_t seed, bool with_reference, size_t workspace_size_) {
    const PreparedExtent extent = prepared_extent(p.format, p.n, p.k);
    CHECK(cudaMalloc(&a, sizeof(*a) * p.m * p.a_stride));
    CHECK(cudaMalloc(&w, sizeof(*w) * p.n * static_cast<size_t>(p.k)));
    CHECK(cudaMalloc(&codes, extent.codes_bytes));
    CHECK(cudaMalloc(&scales, extent.scales_bytes));
    out_bytes = (static_cast<size_t>(p.m) * p.out_stride + 2 * kGuard) * 4;
    CHECK(cudaMalloc(&out, out_bytes));
    workspace_size = workspace_size_;
    CHECK(cudaMalloc(&workspace, workspace_size));
    CHECK(cudaMemset(workspace, 0xFF, workspace_size));
    CHECK(cudaMemset(workspace, 0, kFlagBytes));
    CHECK(cudaMemset(scales, 0, extent.scales_bytes));
    fill_activations<<<1024, 256>>>(a, static_cast<int64_t>(p.m) * p.a_stride, seed);
    pack_codes<<<1024, 256>>>(p.format, seed, p.n, p.k, extent, reinterpret_cast<uint32_t*>(codes));
    pack_scales<<<1024, 256>>>(p.format, seed, p.n, p.k, extent, scales);
    dequantise<<<1024, 256>>>(p.format, seed, p.n, p.k, w);
    if (with_reference) CHECK(cudaMalloc(&expected, sizeof(double) * p.m * static_cast<size_t>(p.n)));
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  void free_all() {
    for (void* pointer : {static_cast<void*>(a), static_cast<void*>(w), static_cast<void*>(codes), static_cast<void*>(scales),
                          static_cast<void*>(out), static_cast<void*>(expected), static_cast<void*>(workspace)})
      CHECK(cudaFree(pointer));
  }
  WgmmaArgs args(const Problem& p, bool f32, float alpha) const {
    return {.a = a,
            .a_stride = p.a_stride,
            .codes = codes,
            .scales = scales,
            .alpha = alpha,
            .acc_exponent = p.format == Format::kNvfp4 ? kNvfp4AccExponent : mxfp4_acc_exponent(kLargestUe8m0),
            .out = out + kGuard * (f32 ? 4 : 2),
            .out_stride = p.out_stride,
            .m = p.m,
            .n = p.n,
            .k = p.k,
            .workspace = workspace};
  }
};

bool check_one(const Buffers& b, const Problem& p, int tile, int split, OutputType output, int repeats, int m_step) {
  const bool f32 = output == OutputType::kF32;
  const WgmmaLaunch launch_function = wgmma_launch(tile, p.format, output);
  if (launch_function == nullptr) return true;
  const WgmmaTactic tactic{kCoreTiles[tile], split, 8};
  if (workspace_bytes(tactic, p.m, p.n, p.k, g_sm_count) > b.workspace_size) {
    std::printf("skipped (workspace) %s\n", to_string(tactic).c_str());
    return true;
  }
  static Comparison* c = nullptr;
  static unsigned long long* hash = nullptr;
  if (c == nullptr) {
    CHECK(cudaMalloc(&c, sizeof(*c)));
    CHECK(cudaMalloc(&hash, sizeof(*hash)));
  }
  unsigned long long first_hash = 0;
  bool ok = true;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    CHECK(cudaMemset(b.out, 0xFF, b.out_bytes));
    const cudaError_t error = launch_function(tactic, b.args(p, f32, 0.37f), g_sm_count, nullptr);
    if (error != cudaSuccess) {
      std::printf("FAIL launch %s %s\n", to_string(tactic).c_str(), cudaGetErrorName(error));
      return false;
    }
    CHECK(cudaMemsetAsync(hash, 0, sizeof(*hash)));
    hash_words<<<256, 256>>>(reinterpret_cast<const uint32_t*>(b.out), b.out_bytes / 4, hash);
    unsigned long long this_hash = 0;
    CHECK(cudaMemcpy(&this_hash, hash, sizeof(this_hash), cudaMemcpyDeviceToHost));
    if (repeat == 0) first_hash = this_hash;
    if (this_hash != first_hash) ok = false;
  }
  if (!ok) std::printf("FAIL not bitwise equal: ");
  CHECK(cudaMemset(c, 0, sizeof(*c)));
  compare<<<512, 256>>>(b.out, f32, b.expected, p.m, p.n, p.out_stride, m_step, Buffers::kGuard, c);
  Comparison seen{};
  CHECK(cudaMemcpy(&seen, c, sizeof(seen), cudaMemcpyDeviceToHost));
  const double relative = std::sqrt(seen.error2 / seen.norm2);
  const double limit = f32 ? 1e-5 * std::sqrt(static_cast<double>(p.k)) : 2.5e-3;
  std::vector<uint32_t> flags(kFlagBytes / 4);
  CHECK(cudaMemcpy(flags.data(), b.workspace, kFlagBytes, cudaMemcpyDeviceToHost));
  bool flags_clear = true;
  for (const uint32_t flag : flags) flags_clear &= flag == 0;
  ok = ok && relative <= limit && seen.bad == 0 && seen.touched == 0 && flags_clear;
  if (!ok)
    std::printf("FAIL m=%d n=%d k=%d f%d out%d %s: rel %.3g bad %llu touched %llu flags %d\n", p.m, p.n, p.k,
                static_cast<int>(p.format), f32, to_string(tactic).c_str(), relative, seen.bad, seen.touched, flags_clear);
  std::fflush(stdout);
  return ok;
}

int check(const std::string& size) {
  const bool quick = size == "quick", tiny = size == "tiny";
  struct Shape {
    int m, n, k, repeats;
  };
  std::vector<Shape> shapes = {{1, 8, 32, 1},      {3, 72, 96, 1},     {17, 136, 160, 1},  {64, 256, 512, 1},
                               {33, 1000, 992, 1}, {129, 264, 2048, 1}};
  if (tiny) shapes = {{3, 72, 96, 1}, {33, 264, 224, 1}};
  if (!quick && !tiny) {
    const std::vector<Shape> more = {{5, 64, 64, 1},     {16, 2056, 4096, 60}, {100, 520, 1056, 1},  {130, 4096, 4096, 60},
                                     {255, 392, 640, 1}, {257, 1544, 736, 1},  {1000, 648, 1504, 1}, {300, 5000, 1024, 60},
                                     {31, 19968, 416, 1}, {2048, 4096, 256, 1}, {512, 20000, 320, 1}, {9, 6656, 6656, 1}};
    shapes.insert(shapes.end(), more.begin(), more.end());
  }
  int failed = 0, run = 0;
  for (const Format format : {Format::kNvfp4, Format::kMxfp4}) {
    for (const Shape& s : shapes) {
      const Problem p{format, s.m, s.n, s.k, s.k + 8 * (s.m % 3), s.n + 8 * (s.m % 2)};
      Buffers b;
      b.make(p, 1234 + s.m * 7 + s.n, true, size_t{256} << 20);
      if (s.m == 33 || s.m == 257) poison_activations<<<1, 1>>>(b.a, p.a_stride);
      reference<<<2048, 256>>>(b.a, p.a_stride, b.w, static_cast<double>(0.37f), p.m, p.n, p.k, 1, b.expected);
      CHECK(cudaDeviceSynchronize());
      int shape_failed = 0;
      for (int tile = 0; tile < kCoreTileCount; ++tile)
        for (const int split : {1, 0, 2, 3, 8})
          for (const OutputType output : {OutputType::kBf16, OutputType::kF32}) {
            if (wgmma_launch(tile, format, output) == nullptr || !illegal(WgmmaTactic{kCoreTiles[tile], split, 8}).empty())
              continue;
            ++run;
            shape_failed += !check_one(b, p, tile, split, output, s.repeats, 1);
          }
      std::printf("check f%d m=%d n=%d k=%d: %s\n", static_cast<int>(format), s.m, s.n, s.k,
                  shape_failed == 0 ? "ok" : "FAILED");
      std::fflush(stdout);
      failed += shape_failed;
      b.free_all();
    }
  }
  std::printf("checks run %d failed %d\n", run, failed);
  return failed != 0;
}

// ---- timing ---------------------------------------------------------------------------------------------------------

struct Cublas {
  void* handle = nullptr;
  int (*gemm)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*, void*,
              int, int, int, int) = nullptr;
  void* workspace = nullptr;

  bool open(cudaStream_t stream) {
    const char* path = std::getenv("CUBLAS_LIBRARY");
    void* library = dlopen(path != nullptr ? path : "libcublas.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      std::printf("no cuBLAS: %s\n", dlerror());
      return false;
    }
    auto create = reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"));
    auto set_stream = reinterpret_cast<int (*)(void*, cudaStream_t)>(dlsym(library, "cublasSetStream_v2"));
    auto set_workspace = reinterpret_cast<int (*)(void*, void*, size_t)>(dlsym(library, "cublasSetWorkspace_v2"));
    gemm = reinterpret_cast<decltype(gemm)>(dlsym(library, "cublasGemmEx"));
    if (create == nullptr || gemm == nullptr || create(&handle) != 0) return false;
    CHECK(cudaMalloc(&workspace, size_t{32} << 20));
    return set_stream(handle, stream) == 0 && set_workspace(handle, workspace, size_t{32} << 20) == 0;
  }
  // out[m, n] = a[m, k] * w[n, k]^T, bf16, FP32 accumulation.
  bool run(const void* a, const void* w, void* out, int m, int n, int k) const {
    const float one = 1, zero = 0;
    constexpr int kBf16 = 14, kCompute32F = 68;
    return gemm(handle, 1, 0, n, m, k, &one, w, kBf16, k, a, kBf16, k, &zero, out, kBf16, n, kCompute32F, -1) == 0;
  }
};

struct Timer {
  cudaStream_t stream;
  cudaEvent_t begin, end;
  uint4* flush;
  uint32_t* sink;
  static constexpr int64_t kFlushBytes = int64_t{256} << 20;

  void make() {
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaMalloc(&flush, kFlushBytes));
    CHECK(cudaMalloc(&sink, 4));
    CHECK(cudaMemset(flush, 1, kFlushBytes));
  }
  float sample(cudaGraphExec_t graph) const {
    read_bytes<<<1056, 512, 0, stream>>>(flush, kFlushBytes / 16, sink);
    CHECK(cudaEventRecord(begin, stream));
    CHECK(cudaGraphLaunch(graph, stream));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    return ms * 1000;
  }
};

struct Candidate {
  std::string name;
  cudaGraphExec_t graph;
  std::vector<float> samples;
};

template <typename F>
bool capture(cudaStream_t stream, F&& work, cudaGraphExec_t* exec) {
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  const bool ok = work();
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  if (ok) CHECK(cudaGraphInstantiate(exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return ok;
}

int time_all(const char* path, int samples, const std::vector<int>& ms, bool mxfp4) {
  Timer timer;
  timer.make();
  Cublas cublas;
  const bool has_cublas = cublas.open(timer.stream);
  std::FILE* csv = std::fopen(path, "w");
  std::fprintf(csv, "n,k,m,format,tactic,median_us,min_us,q1_us,q3_us,samples,null_us,cublas_us\n");
  const int shapes[3][2] = {{4096, 4096}, {19968, 4096}, {19968, 6656}};
  const std::vector<Format> formats = {mxfp4 ? Format::kMxfp4 : Format::kNvfp4};
  int largest = 0;
  for (const int m : ms) largest = std::max(largest, m);
  for (const Format format : formats)
    for (const auto& shape : shapes) {
      Problem p{format, largest, shape[0], shape[1], shape[1], shape[0]};
      Buffers b;
      b.make(p, 99, true, size_t{1} << 30);
      for (const int m : ms) {
        p.m = m;
        const int m_step = std::max(1, m / 16);
        reference<<<2048, 256>>>(b.a, p.a_stride, b.w, static_cast<double>(0.37f), p.m, p.n, p.k, m_step, b.expected);
        CHECK(cudaDeviceSynchronize());
        std::vector<Candidate> candidates;
        auto add = [&](const std::string& name, auto&& work) {
          Candidate c{.name = name, .graph = {}, .samples = {}};
          if (capture(timer.stream, work, &c.graph)) candidates.push_back(std::move(c));
        };
        add("read", [&] {  // the prepared weights' bytes once: what memory alone would take
          const PreparedExtent extent = prepared_extent(format, p.n, p.k);
          read_bytes<<<1056, 512, 0, timer.stream>>>(reinterpret_cast<const uint4*>(b.codes), static_cast<int64_t>(extent.codes_bytes / 16), timer.sink);
          return cudaGetLastError() == cudaSuccess;
        });
        add("null", [&] {
          null_kernel<<<1, 32, 0, timer.stream>>>();
          return cudaGetLastError() == cudaSuccess;
        });
        if (has_cublas) add("cublas", [&] { return cublas.run(b.a, b.w, b.out, p.m, p.n, p.k); });
        for (int tile = 0; tile < kCoreTileCount; ++tile) {
          const WgmmaLaunch launch_function = wgmma_launch(tile, format, OutputType::kBf16);
          const WgmmaTile& t = kCoreTiles[tile];
          if (launch_function == nullptr) continue;
          if (t.tile_m > 2 * m && t.tile_m > 16) continue;
          if (m > 16 * t.tile_m) continue;
          for (const int split : {1, 0, 2, 3, 4, 8}) {
            for (const int raster : {8, 4, 2, 1}) {
              const WgmmaTactic tactic{t, split, raster};
              if (!illegal(tactic).empty()) continue;
              if (raster > 1 && raster < 8 && (m + t.tile_m - 1) / t.tile_m <= raster) continue;
              if (raster == 1 && (m + t.tile_m - 1) / t.tile_m == 1) continue;
              const Schedule schedule = make_schedule(tactic, p.m, p.n, p.k, g_sm_count);
              if (split > 1 && (schedule.workers * t.cluster_n > 2 * g_sm_count)) continue;
              if (split == 0 && schedule.shared_tiles == 0) continue;
              if (workspace_bytes(tactic, p.m, p.n, p.k, g_sm_count) > b.workspace_size) continue;
              if (!check_one(b, p, tile, split, OutputType::kBf16, 1, m_step)) continue;
              const WgmmaArgs args = b.args(p, false, 0.37f);
              add(to_string(tactic), [&] { return launch_function(tactic, args, g_sm_count, timer.stream) == cudaSuccess; });
            }
          }
        }
        const int count = m >= 1024 ? std::max(12, 2 * samples / 3) : samples;
        for (int round = -2; round < count; ++round)
          for (Candidate& c : candidates) {
            const float us = timer.sample(c.graph);
            if (round >= 0) c.samples.push_back(us);
          }
        float null_us = 0, cublas_us = 0, best = 1e30f;
        std::string best_name;
        std::vector<std::pair<float, std::string>> ranking;
        for (Candidate& c : candidates) {
          std::sort(c.samples.begin(), c.samples.end());
          const size_t s = c.samples.size();
          const float median = c.samples[s / 2];
          if (c.name == "null") null_us = median;
          if (c.name == "cublas") cublas_us = median;
          std::fprintf(csv, "%d,%d,%d,%s,%s,%.2f,%.2f,%.2f,%.2f,%zu,%.2f,%.2f\n", p.n, p.k, m,
                       format == Format::kNvfp4 ? "nvfp4" : "mxfp4", c.name.c_str(), median, c.samples[0], c.samples[s / 4],
                       c.samples[3 * s / 4], s, null_us, cublas_us);
          if (c.name != "null" && c.name != "cublas" && c.name != "read") {
            ranking.emplace_back(median, c.name);
            if (median < best) best = median, best_name = c.name;
          }
          CHECK(cudaGraphExecDestroy(c.graph));
        }
        std::sort(ranking.begin(), ranking.end());
        std::printf("%s n=%d k=%d m=%d null %.1f cublas %.1f best %.1f ratio %.3f\n", format == Format::kNvfp4 ? "nvfp4" : "mxfp4",
                    p.n, p.k, m, null_us, cublas_us, best, best / cublas_us);
        for (size_t i = 0; i < ranking.size() && i < 4; ++i)
          std::printf("    %.1f %s\n", ranking[i].first, ranking[i].second.c_str());
        std::fflush(stdout);
      }
      b.free_all();
    }
  std::fclose(csv);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(cudaSetDevice(0));
  CHECK(cudaDeviceGetAttribute(&g_sm_count, cudaDevAttrMultiProcessorCount, 0));
  std::printf("SMs %d\n", g_sm_count);
  if (std::getenv("CLUSTERS") != nullptr) {
    for (const unsigned size : {2u, 4u, 8u}) {
      cudaLaunchConfig_t config{};
      config.gridDim = dim3(size * 64);
      config.blockDim = dim3(384);
      config.dynamicSmemBytes = 200 * 1024;
      cudaLaunchAttribute attribute{};
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = size;
      attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
      config.attrs = &attribute;
      config.numAttrs = 1;
      CHECK(cudaFuncSetAttribute(null_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024));
      int clusters = 0;
      CHECK(cudaOccupancyMaxActiveClusters(&clusters, null_kernel, &config));
      std::printf("clusters of %u at once: %d\n", size, clusters);
    }
  }
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "check") return check(argc > 2 ? argv[2] : "");
  if (mode == "one") {  // one m n k tile split [timed samples]
    const int m = std::atoi(argv[2]), n = std::atoi(argv[3]), k = std::atoi(argv[4]), tile = std::atoi(argv[5]), split = std::atoi(argv[6]);
    const int samples = argc > 7 ? std::atoi(argv[7]) : 0;
    const Problem p{Format::kNvfp4, m, n, k, k, n};
    Buffers b;
    b.make(p, 99, false, size_t{1} << 30);
    const WgmmaTactic tactic{kCoreTiles[tile], split, 8};
    const WgmmaArgs args = b.args(p, false, 0.37f);
    const WgmmaLaunch f = wgmma_launch(tile, Format::kNvfp4, OutputType::kBf16);
    if (samples == 0) { CHECK(f(tactic, args, g_sm_count, nullptr)); CHECK(cudaDeviceSynchronize()); return 0; }
    Timer timer; timer.make();
    cudaGraphExec_t g;
    capture(timer.stream, [&] { return f(tactic, args, g_sm_count, timer.stream) == cudaSuccess; }, &g);
    std::vector<float> v;
    for (int i = 0; i < samples; ++i) v.push_back(timer.sample(g));
    std::sort(v.begin(), v.end());
    std::printf("one m=%d n=%d k=%d %s: %.2f\n", m, n, k, to_string(tactic).c_str(), v[v.size()/2]);
    return 0;
  }
  if (mode == "time") {
    std::vector<int> ms;
    for (int i = 4; i < argc; ++i) ms.push_back(std::atoi(argv[i]));
    if (ms.empty()) ms = {16, 32, 64, 128, 256, 512, 1024, 2048};
    return time_all(argv[2], argc > 3 ? std::atoi(argv[3]) : 31, ms, std::getenv("MXFP4") != nullptr);
  }
  std::printf("usage: wgmma_dev check [quick|tiny] | one m n k core_tile split [samples] | time FILE.csv [samples [m...]]\n");
  return 2;
}
