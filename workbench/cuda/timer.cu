#include <array>
#include <cstdint>

#include "kernels/common/cuda/ptx/globaltimer.cuh"
#include "workbench/cuda/timer.h"

namespace pinch::cuda {

namespace {

// Of the launches tried, the fastest to read bytes that are not in the caches: blocks, and threads of each.
constexpr int kReadBlocks = 1056;
constexpr int kReadThreads = 512;
constexpr long long kClockCycles = 50000;

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

// sink[0]: cycles, sink[1]: nanoseconds, both between two edges of the coarse nanosecond timer.
__global__ void read_clocks(long long* sink) {
  const auto edge = [](long long& ns) {
    const long long before = ptx::globaltimer_ns();
    do ns = ptx::globaltimer_ns();
    while (ns == before);
    return clock64();
  };
  long long begin_ns, end_ns;
  const long long begin = edge(begin_ns);
  while (clock64() - begin < kClockCycles) {
  }
  const long long end = edge(end_ns);
  sink[0] = end - begin;
  sink[1] = end_ns - begin_ns;
}

}  // namespace

Result<Timer> Timer::create(int device) {
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  Timer timer;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  PINCH_TRY(check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream"));
  timer.stream_.reset(stream);
  PINCH_TRY(check(cudaEventCreate(&begin), "creating an event"));
  timer.begin_.reset(begin);
  PINCH_TRY(check(cudaEventCreate(&end), "creating an event"));
  timer.end_.reset(end);
  PINCH_ASSIGN(flush, DeviceMemory::allocate(device, kFlushBytes));
  PINCH_ASSIGN(sink, DeviceMemory::allocate(device, 2 * sizeof(long long)));
  timer.flush_ = std::move(flush);
  timer.sink_ = std::move(sink);
  fill_noise<<<kReadBlocks, kReadThreads, 0, stream>>>(reinterpret_cast<uint4*>(timer.flush_.data()),
                                                       kFlushBytes / sizeof(uint4));
  PINCH_TRY(check(cudaGetLastError(), "filling the bytes that flush the L2"));
  PINCH_TRY(check(cudaStreamSynchronize(stream), "filling the bytes that flush the L2"));
  return std::move(timer);
}

Result<RecordedGraph> Timer::record(const std::function<Result<void>(cudaStream_t)>& work) const {
  const DeviceScope scope(device());
  PINCH_TRY(scope.ok());
  PINCH_TRY(check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), "beginning a capture"));
  const Result<void> enqueued = work(stream());
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream(), &graph);
  RecordedGraph recorded(graph);
  if (!enqueued) {
    cudaGetLastError();
    return enqueued.error();
  }
  PINCH_TRY(check(ended, "ending a capture"));
  return std::move(recorded);
}

Result<Graph> Timer::capture(const std::function<Result<void>(cudaStream_t)>& work) const {
  const DeviceScope scope(device());
  PINCH_TRY(scope.ok());
  PINCH_ASSIGN(recorded, record(work));
  cudaGraphExec_t ready = nullptr;
  PINCH_TRY(check(cudaGraphInstantiate(&ready, recorded.get(), 0), "instantiating a graph"));
  return Graph(ready);
}

Result<double> Timer::replay_ns(const Graph& graph) const {
  PINCH_TRY(check(cudaEventRecord(begin_.get(), stream()), "recording an event"));
  PINCH_TRY(check(cudaGraphLaunch(graph.get(), stream()), "launching a graph"));
  PINCH_TRY(check(cudaEventRecord(end_.get(), stream()), "recording an event"));
  PINCH_TRY(check(cudaEventSynchronize(end_.get()), "waiting for a graph"));
  float ms = 0;
  PINCH_TRY(check(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), "reading events"));
  return ms * 1e6;
}

Result<double> Timer::cold_ns(const Graph& graph) const {
  const DeviceScope scope(device());
  PINCH_TRY(scope.ok());
  PINCH_TRY(enqueue_read(flush_.data(), flush_.bytes(), stream()));
  return replay_ns(graph);
}

Result<double> Timer::warm_ns(const Graph& graph) const {
  const DeviceScope scope(device());
  PINCH_TRY(scope.ok());
  PINCH_TRY(check(cudaGraphLaunch(graph.get(), stream()), "launching a graph"));
  return replay_ns(graph);
}

Result<double> Timer::clock_ghz() const {
  const DeviceScope scope(device());
  PINCH_TRY(scope.ok());
  read_clocks<<<1, 1, 0, stream()>>>(reinterpret_cast<long long*>(sink_.data()));
  PINCH_TRY(check(cudaGetLastError(), "reading the clocks"));
  std::array<long long, 2> read{};
  PINCH_TRY(check(cudaMemcpyAsync(read.data(), sink_.data(), sizeof read, cudaMemcpyDeviceToHost, stream()),
                  "reading the clocks"));
  PINCH_TRY(check(cudaStreamSynchronize(stream()), "reading the clocks"));
  return static_cast<double>(read[0]) / static_cast<double>(read[1]);
}

Result<void> Timer::enqueue_null(cudaStream_t stream) {
  null_kernel<<<1, 32, 0, stream>>>();
  return check(cudaGetLastError(), "enqueueing an empty kernel");
}

Result<void> Timer::enqueue_read(const void* bytes, std::size_t count, cudaStream_t stream) const {
  read_bytes<<<kReadBlocks, kReadThreads, 0, stream>>>(static_cast<const uint4*>(bytes),
                                                       static_cast<std::int64_t>(count / sizeof(uint4)),
                                                       reinterpret_cast<std::uint32_t*>(sink_.data()));
  return check(cudaGetLastError(), "enqueueing a read");
}

}  // namespace pinch::cuda
