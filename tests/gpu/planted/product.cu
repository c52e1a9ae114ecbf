// C = sum over k of decay^(K-1-k) a_k b_k, in FP32, warp-specialised: the subject of scripts/planted_gpu.sh, in which a
// known part of the time is wasted. One producer thread copies CHUNK rows of two packed panels at once into a ring of
// kStages; 256 consumer threads multiply. What is wasted is compiled in or given:
//   -DPLANT_DIVIDE=n    n values a row are divided by 1: instructions that need not exist (algebra)
//   -DPLANT_SPILL=n     no more than n registers a thread, fewer than its sums and values need (schedule)
//   -DPLANT_ARRAY=n     n values a row go through an array that is indexed at run time (schedule)
//   DELAY               cycles that the producer lets pass from one chunk to the next (pipeline)
//   CHUNK, TILE         a worse split and a worse tile than the best (handoff, tactic)
//   product CHUNK TILE DELAY
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/common/cuda/ptx/bulk_copy.cuh"
#include "kernels/common/cuda/ptx/fence.cuh"
#include "kernels/common/cuda/ptx/mbarrier.cuh"
#include "pinch/trace.cuh"

#ifndef PLANT_DIVIDE
#define PLANT_DIVIDE 0
#endif
#ifdef PLANT_SPILL
#define PLANT_REGISTERS __maxnreg__(PLANT_SPILL)
#else
#define PLANT_REGISTERS __launch_bounds__(kThreads, 1)
#endif
#ifndef PLANT_ARRAY
#define PLANT_ARRAY 0
#endif

namespace planted {

// Whole waves of 132 CTAs with each tile.
constexpr int kM = 3072, kN = 2816, kK = 2048;
constexpr int kStages = 3, kSide = 16, kConsumers = kSide * kSide, kThreads = kConsumers + 32;
constexpr int kBytesOfOneCta = 120 * 1024;  // an SM holds one, so that what is planted changes no occupancy
constexpr int kTracedCtas = 132, kLaunches = 12, kWarmUps = 2;

enum Roles { kProducer, kConsumer };
enum Waits { kEmpty, kFull };

constexpr float kDecay = 1023.0F / 1024;  // of a sum, each row: two operations a product, so that the FMA pipe binds

/// What is planted at run time changes nothing that is computed: a division by 1, one place said twice.
struct Plant {
  float one = 1, decay = kDecay;
  int write = 5, read = 5;
  long long delay_cycles = 0;
};

template <int kChunk, int kRows, int kColumns>
struct Shared {
  static constexpr int kTileM = kSide * kRows, kTileN = kSide * kColumns;
  alignas(128) float a[kStages][kChunk][kTileM];
  alignas(128) float b[kStages][kChunk][kTileN];
  unsigned long long full[kStages], empty[kStages];
};

__device__ void wait(unsigned long long& barrier, unsigned parity) {
  while (!pinch::ptx::mbarrier_try_wait_parity(pinch::ptx::shared_address(&barrier), parity)) {
  }
}

template <int kChunk, int kRows, int kColumns>
__device__ void produce(Shared<kChunk, kRows, kColumns>& shared, const float* a, const float* b, long long delay) {
  using S = Shared<kChunk, kRows, kColumns>;
  constexpr unsigned kBytesA = sizeof(float) * kChunk * S::kTileM, kBytesB = sizeof(float) * kChunk * S::kTileN;
  PINCH_TRACE_SCOPE();
  long long issued = clock64() - delay;
  for (int chunk = 0; chunk < kK / kChunk; ++chunk) {
    const int stage = chunk % kStages;
    PINCH_TRACE_STEP(kProducer, chunk);
    if (chunk >= kStages) {
      PINCH_TRACE_WAIT(kEmpty);
      wait(shared.empty[stage], (chunk / kStages + 1) % 2);
    }
    while (clock64() - issued < delay) {
    }
    issued = clock64();
    const uint32_t full = pinch::ptx::shared_address(&shared.full[stage]);
    pinch::ptx::mbarrier_arrive_expect_tx(full, kBytesA + kBytesB);
    pinch::ptx::cp_async_bulk_shared_global(pinch::ptx::shared_address(shared.a[stage]),
                                            a + static_cast<std::size_t>(chunk) * kChunk * S::kTileM, kBytesA, full);
    pinch::ptx::cp_async_bulk_shared_global(pinch::ptx::shared_address(shared.b[stage]),
                                            b + static_cast<std::size_t>(chunk) * kChunk * S::kTileN, kBytesB, full);
  }
}

// Of a row of the tile, the thread's values: four of each quarter or half, so that lanes read 16 bytes side by side.
template <int kValues>
__device__ void read(float (&values)[kValues], const float* row, int lane) {
#pragma unroll
  for (int part = 0; part < kValues / 4; ++part)
    *reinterpret_cast<float4*>(&values[4 * part]) = *reinterpret_cast<const float4*>(&row[part * 4 * kSide + 4 * lane]);
}

template <int kChunk, int kRows, int kColumns>
__device__ void consume(Shared<kChunk, kRows, kColumns>& shared, float* c, const Plant& plant) {
  PINCH_TRACE_SCOPE();
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
  float sums[kRows][kColumns] = {};
#if PLANT_ARRAY
  float kept[16] = {};
#endif
  for (int chunk = 0; chunk < kK / kChunk; ++chunk) {
    const int stage = chunk % kStages;
    PINCH_TRACE_STEP(kConsumer, chunk);
    {
      PINCH_TRACE_WAIT(kFull);
      wait(shared.full[stage], chunk / kStages % 2);
    }
#pragma unroll 2
    for (int k = 0; k < kChunk; ++k) {
      float a[kRows], b[kColumns];
      read(a, shared.a[stage][k], y);
      read(b, shared.b[stage][k], x);
#if PLANT_DIVIDE
#pragma unroll
      for (int i = 0; i < PLANT_DIVIDE; ++i) a[i] /= plant.one;
#endif
#if PLANT_ARRAY
#pragma unroll
      for (int i = 0; i < PLANT_ARRAY; ++i) {
        kept[(k + 3 * i + plant.write) & 15] = a[i];
        a[i] = kept[(k + 3 * i + plant.read) & 15];
      }
#endif
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] = sums[i][j] * plant.decay + a[i] * b[j];
      }
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) pinch::ptx::mbarrier_arrive(pinch::ptx::shared_address(&shared.empty[stage]));
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      c[std::size_t(i / 4 * 4 * kSide + 4 * y + i % 4) * kN + j / 4 * 4 * kSide + 4 * x + j % 4] = sums[i][j];
  }
}

template <int kChunk, int kRows, int kColumns>
__global__ void PLANT_REGISTERS product(const float* a, const float* b, float* c, Plant plant) {
  using S = Shared<kChunk, kRows, kColumns>;
  extern __shared__ __align__(128) unsigned char bytes[];
  S& shared = *reinterpret_cast<S*>(bytes);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      pinch::ptx::mbarrier_init(pinch::ptx::shared_address(&shared.full[stage]), 1);
      pinch::ptx::mbarrier_init(pinch::ptx::shared_address(&shared.empty[stage]), kConsumers / 32);
    }
    pinch::ptx::fence_mbarrier_init();
    pinch::ptx::fence_proxy_async_shared();
  }
  __syncthreads();
  const int tile_m = blockIdx.x % (kM / S::kTileM), tile_n = blockIdx.x / (kM / S::kTileM);
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers)
      produce(shared, a + std::size_t{kK} * tile_m * S::kTileM, b + std::size_t{kK} * tile_n * S::kTileN,
              plant.delay_cycles);
    return;
  }
  consume(shared, c + std::size_t{kN} * tile_m * S::kTileM + std::size_t(tile_n) * S::kTileN, plant);
}

#define CHECK(call)                                                                         \
  do {                                                                                      \
    if (const cudaError_t error = (call); error != cudaSuccess) {                           \
      std::fprintf(stderr, "%s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error)); \
      std::exit(1);                                                                         \
    }                                                                                       \
  } while (false)

// In [-1, 1), of 8 bits.
float value_of(unsigned row, unsigned column) {
  unsigned hash = row * 2654435761U ^ (column + 1) * 2246822519U;
  hash = (hash ^ hash >> 15) * 3266489917U;
  return static_cast<float>(hash >> 24) / 128 - 1;
}

// [panel][k][wide]
float* panels(int rows, int wide, unsigned seed) {
  std::vector<float> host(std::size_t(rows) * kK);
  std::size_t at = 0;
  for (int panel = 0; panel < rows / wide; ++panel) {
    for (int k = 0; k < kK; ++k) {
      for (int i = 0; i < wide; ++i) host[at++] = value_of(static_cast<unsigned>(panel * wide + i) + seed, k);
    }
  }
  float* device = nullptr;
  CHECK(cudaMalloc(&device, host.size() * sizeof(float)));
  CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
  return device;
}

constexpr unsigned kSeedB = 1U << 20;

// Elements spread over C, against sums in FP64. A sum is rounded twice a row, by 2^-24 of what it is, and what was
// rounded decays as it does: all of it is below 2 * 2^-24 / (1 - decay) of the largest that the sum of absolute terms
// was.
bool right(const std::vector<float>& c) {
  constexpr double kAllowed = 2 * 1024 / 16777216.0;
  for (unsigned sample = 0; sample < 256; ++sample) {
    const unsigned m = sample * 977U % kM, n = sample * 1361U % kN;
    double sum = 0, size = 0;
    for (unsigned k = 0; k < kK; ++k) {
      const double term = double{value_of(m, k)} * double{value_of(n + kSeedB, k)};
      sum = sum * double{kDecay} + term;
      size = std::max(size * double{kDecay} + std::abs(term), size);
    }
    if (!(std::abs(double{c[std::size_t{m} * kN + n]} - sum) <= size * kAllowed)) return false;
  }
  return true;
}

template <int kChunk, int kRows, int kColumns>
int run(long long delay) {
  using S = Shared<kChunk, kRows, kColumns>;
  static_assert(kM % S::kTileM == 0 && kN % S::kTileN == 0 && kK % kChunk == 0);
  const float *a = panels(kM, S::kTileM, 0), *b = panels(kN, S::kTileN, kSeedB);
  float* c = nullptr;
  std::vector<float> host(std::size_t{kM} * kN);
  CHECK(cudaMalloc(&c, host.size() * sizeof(float)));
  CHECK(cudaMemset(c, 0xff, host.size() * sizeof(float)));
  const auto kernel = product<kChunk, kRows, kColumns>;
  constexpr int kBytes = std::max<int>(sizeof(S), kBytesOfOneCta);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  constexpr unsigned kCtas = kM / S::kTileM * (kN / S::kTileN);
  pinch::trace::CudaSession session(
      pinch::trace::kLevel, "product",
      {{{"producer"}, {"consumer", true}}, {{"empty", kConsumer}, {"full", kProducer}}, {}},
      {.ctas = kTracedCtas, .warps_of_cta = kThreads / 32, .events_of_warp = 2 * kK / kChunk + 8});
  PINCH_TRACE_ATTACH(session);
  Plant plant;
  plant.delay_cycles = delay;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::string samples;
  for (int launch = 0; launch < kLaunches; ++launch) {
    session.again();
    CHECK(cudaEventRecord(begin));
    kernel<<<kCtas, kThreads, kBytes>>>(a, b, c, plant);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (launch < kWarmUps) continue;
    session.add_run_ns(double{ms} * 1e6);
    samples += (samples.empty() ? "" : ", ") + std::to_string(ms);
  }
  CHECK(cudaMemcpy(host.data(), c, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
  if (!right(host)) {
    std::fprintf(stderr, "wrong\n");
    return 1;
  }
  if (const char* folder = std::getenv("PINCH_OUTPUTS")) {  // every 37th element: 935 KB
    std::vector<float> kept;
    for (std::size_t i = 0; i < host.size(); i += 37) kept.push_back(host[i]);
    std::FILE* file = std::fopen((std::string(folder) + "/c.bin").c_str(), "wb");
    if (file == nullptr || std::fwrite(kept.data(), sizeof(float), kept.size(), file) != kept.size() ||
        std::fclose(file) != 0)
      return 1;
  }
  std::printf("{\"ms\": [%s]}\n", samples.c_str());
  return session.finish() ? 0 : 1;
}

template <int kChunk>
int with_chunk(const char* tile, long long delay) {
  if (std::strcmp(tile, "88") == 0) return run<kChunk, 8, 8>(delay);
#ifndef DEFAULT_ALONE
  if constexpr (kChunk == 16) {  // one of the two is bad at a time
    if (std::strcmp(tile, "84") == 0) return run<kChunk, 8, 4>(delay);
    if (std::strcmp(tile, "44") == 0) return run<kChunk, 4, 4>(delay);
  }
#endif
  return 2;
}

}  // namespace planted

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const long long delay = std::atoll(argv[3]);
  switch (std::atoi(argv[1])) {
    case 16:
      return planted::with_chunk<16>(argv[2], delay);
#ifndef DEFAULT_ALONE
    case 1:
      return planted::with_chunk<1>(argv[2], delay);
    case 2:
      return planted::with_chunk<2>(argv[2], delay);
    case 4:
      return planted::with_chunk<4>(argv[2], delay);
#endif
    default:
      return 2;
  }
}
