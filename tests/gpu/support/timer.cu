#include "tests/gpu/support/timer.h"

namespace pinch::gpu_test {

namespace {

constexpr std::size_t kFlushBytes = std::size_t{256} << 20;

__global__ void fill_noise(uint4* data, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const auto x = static_cast<std::uint32_t>(i) * 2654435761u;
    data[i] = make_uint4(x, x * 40503u + 1, x * 69069u + 2, x * 1664525u + 3);
  }
}

__global__ void null_kernel() {}

// Eight loads in flight a thread.
__global__ void read_bytes(const uint4* data, std::int64_t count, std::uint32_t* sink) {
  constexpr int kLoads = 8;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::uint32_t x = 0;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += kLoads * step) {
    uint4 v[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) v[j] = i + j * step < count ? data[i + j * step] : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int j = 0; j < kLoads; ++j) x ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  if (x == 0x12345678u) *sink = x;  // keeps the loads
}

}  // namespace

Timer::Timer() : flush_(kFlushBytes / sizeof(uint4)), sink_(1) {
  PINCH_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  PINCH_CUDA_CHECK(cudaEventCreate(&begin_));
  PINCH_CUDA_CHECK(cudaEventCreate(&end_));
  fill_noise<<<1056, 512>>>(flush_.data(), static_cast<std::int64_t>(flush_.size()));
  PINCH_CUDA_CHECK(cudaDeviceSynchronize());
}

Timer::~Timer() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudaStreamDestroy(stream_);
}

cudaGraphExec_t Timer::capture(const std::function<bool()>& work) const {
  PINCH_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  const bool enqueued = work();
  cudaGraph_t graph = nullptr;
  PINCH_CUDA_CHECK(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t exec = nullptr;
  if (enqueued) PINCH_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  PINCH_CUDA_CHECK(cudaGraphDestroy(graph));
  return exec;
}

double Timer::sample_us(cudaGraphExec_t graph) const {
  read_bytes<<<1056, 512, 0, stream_>>>(flush_.data(), static_cast<std::int64_t>(flush_.size()), sink_.data());
  PINCH_CUDA_CHECK(cudaEventRecord(begin_, stream_));
  PINCH_CUDA_CHECK(cudaGraphLaunch(graph, stream_));
  PINCH_CUDA_CHECK(cudaEventRecord(end_, stream_));
  PINCH_CUDA_CHECK(cudaEventSynchronize(end_));
  float ms = 0;
  PINCH_CUDA_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
  return ms * 1e3;
}

bool Timer::enqueue_null() const {
  null_kernel<<<1, 32, 0, stream_>>>();
  return cudaGetLastError() == cudaSuccess;
}

bool Timer::enqueue_read(const void* bytes, std::size_t count) const {
  read_bytes<<<1056, 512, 0, stream_>>>(static_cast<const uint4*>(bytes),
                                        static_cast<std::int64_t>(count / sizeof(uint4)), sink_.data());
  return cudaGetLastError() == cudaSuccess;
}

}  // namespace pinch::gpu_test
