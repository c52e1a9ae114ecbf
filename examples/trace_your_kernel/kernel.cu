// A warp-specialised kernel with marks: warp 0 loads tiles into a ring of two, warp 1 multiplies and adds them up.
//   nvcc -O3 -std=c++20 -arch=sm_90a -I include -DPINCH_TRACE_LEVEL=1 kernel.cu -o kernel_coarse   (0: off, 2:
//   detailed) pinch trace -- './kernel_${level}'
#include <cstdio>
#include <vector>

#include "pinch/trace.cuh"

enum Roles { kLoader, kMath };
enum Waits { kEmpty, kFull };
enum Phases { kIssue, kWrite };
constexpr int kStages = 2, kTile = 2048, kTiles = 256, kCtas = 132;

// Named barriers of 64 threads: 1 + stage says that a slot is full, 3 + stage that it is empty.
__device__ void arrive(int barrier) {
  asm volatile("bar.arrive %0, 64;" ::"r"(barrier) : "memory");
}
__device__ void wait(int barrier) {
  asm volatile("bar.sync %0, 64;" ::"r"(barrier) : "memory");
}

__device__ void load(const float4* in, float4 (*ring)[kTile / 4]) {
  PINCH_TRACE_SCOPE();
  for (int t = 0; t < kTiles; ++t) {
    PINCH_TRACE_STEP(kLoader, t);
    {
      PINCH_TRACE_WAIT(kEmpty);
      if (t >= kStages) wait(3 + t % kStages);
    }
    float4 part[kTile / 128];
    PINCH_TRACE_PHASE(kIssue);
    for (int i = 0; i < kTile / 128; ++i) part[i] = in[t * (kTile / 4) + i * 32 + threadIdx.x];
    PINCH_TRACE_PHASE(kWrite);
    for (int i = 0; i < kTile / 128; ++i) ring[t % kStages][i * 32 + threadIdx.x] = part[i];
    arrive(1 + t % kStages);
  }
}

__device__ float multiply(const float4 (*ring)[kTile / 4], int lane) {
  PINCH_TRACE_SCOPE();
  float sum = 0;
  for (int t = 0; t < kTiles; ++t) {
    PINCH_TRACE_STEP(kMath, t);
    {
      PINCH_TRACE_WAIT(kFull);
      wait(1 + t % kStages);
    }
    for (int i = lane; i < kTile / 4; i += 32) {
      const float4 v = ring[t % kStages][i];
      sum += v.x * v.y + v.z * v.w;
    }
    if (t + kStages < kTiles) arrive(3 + t % kStages);
  }
  return sum;
}

__global__ void kernel(const float4* in, float* out) {
  __shared__ float4 ring[kStages][kTile / 4];
  in += blockIdx.x * std::size_t{kTiles} * (kTile / 4);
  if (threadIdx.x < 32) return load(in, ring);
  out[blockIdx.x * 32 + threadIdx.x - 32] = multiply(ring, threadIdx.x - 32);
}

int main() {
  const std::size_t elements = std::size_t{kCtas} * kTiles * kTile;
  const std::vector<float> values(elements, 1.0F);
  float *in = nullptr, *out = nullptr, ms = 0;
  std::vector<float> sums(kCtas * 32);
  cudaMalloc(reinterpret_cast<void**>(&in), elements * sizeof(float));
  cudaMalloc(reinterpret_cast<void**>(&out), sums.size() * sizeof(float));
  cudaMemcpy(in, values.data(), elements * sizeof(float), cudaMemcpyHostToDevice);
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  kernel<<<kCtas, 64>>>(reinterpret_cast<const float4*>(in),
                        out);  // warms up, and is not traced: nothing is attached yet
  pinch::trace::CudaSession session(pinch::trace::kLevel, "two warps",
                                    {{{"loader"}, {"math"}}, {{"empty", kMath}, {"full", kLoader}}, {"issue", "write"}},
                                    {.ctas = kCtas, .warps_of_cta = 2});
  PINCH_TRACE_ATTACH(session);
  cudaEventRecord(begin);
  kernel<<<kCtas, 64>>>(reinterpret_cast<const float4*>(in), out);
  cudaEventRecord(end);
  cudaEventSynchronize(end);
  cudaEventElapsedTime(&ms, begin, end);
  session.add_run_ns(ms * 1e6);
  cudaMemcpy(sums.data(), out, sums.size() * sizeof(float), cudaMemcpyDeviceToHost);
  const bool right = sums[0] == kTiles * kTile / 64.0F;  // 16 products of ones a lane and tile, twice over
  std::printf("%.3f ms, %s\n", ms, cudaGetLastError() != cudaSuccess ? "failed" : right ? "right" : "wrong");
  return session.finish() && right ? 0 : 1;
}
