// What tests of the CUDA front doors share: arrays in a device's memory, workspaces, streams, a count of what the host
// allocates, and what every run must do.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/common/cuda/runtime.h"
#include "pinch/gemm_cuda.h"

namespace pinch::cuda {

/// Allocations of this process so far, by operator new: support/allocations.cc counts them.
long allocations();

inline void check(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

/// Elements in a device's memory.
template <class T>
class Array {
 public:
  Array(int device, std::size_t count) : count_(count), memory_(DeviceMemory::allocate(device, count * sizeof(T))) {
    fill(0xff);
  }
  Array(int device, const std::vector<T>& values) : Array(device, values.size()) {
    check(cudaMemcpy(data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  T* data() const { return reinterpret_cast<T*>(memory_->data()); }
  std::size_t size() const { return count_; }
  std::span<std::byte> bytes() const { return {memory_->data(), count_ * sizeof(T)}; }
  void fill(int byte) const {
    const DeviceScope scope(memory_->device());
    check(cudaMemset(data(), byte, count_ * sizeof(T)));
    check(cudaDeviceSynchronize());
  }
  std::vector<T> download() const {
    std::vector<T> host(count_);
    check(cudaMemcpy(host.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  std::size_t count_;
  Result<DeviceMemory> memory_;
};

/// A workspace of so many bytes or more, cleared once.
struct Workspace {
  Workspace(int device, std::size_t bytes) : memory(device, std::max<std::size_t>(bytes, 16)) {
    EXPECT_TRUE(clear_workspace(memory.bytes(), device).ok());
  }
  Array<std::byte> memory;
};

/// A stream of the current device that waits for no other.
class OwnStream {
 public:
  OwnStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~OwnStream() { check(cudaStreamDestroy(stream_)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Skips its tests where there is no device that the front doors take.
class FrontDoorTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto device = gemm_device(0);
    if (!device) GTEST_SKIP() << device.error().message();
  }
};

/// `run` on a stream says whether it was enqueued; `poison` overwrites what it writes, `written` waits and returns it.
/// A hundred runs allocate nothing; two of them captured into a graph give the same bits at every replay.
template <class Run, class Poison, class Written>
void expect_allocates_nothing_and_is_captured(Run run, Poison poison, Written written) {
  const OwnStream own;
  cudaStream_t stream = own.get();
  check(cudaDeviceSynchronize());
  ASSERT_TRUE(run(stream));
  check(cudaStreamSynchronize(stream));
  const auto first = written();
  std::size_t free_before = 0, free_after = 0, total = 0;
  check(cudaMemGetInfo(&free_before, &total));
  const long before = allocations();
  bool all = true;
  for (int i = 0; i < 100; ++i) all = run(stream) && all;
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(all);
  check(cudaStreamSynchronize(stream));
  check(cudaMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_after, free_before);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_TRUE(run(stream));
  EXPECT_TRUE(run(stream));
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&ready, graph, 0));
  for (int replay = 0; replay < 3; ++replay) {
    poison();
    check(cudaDeviceSynchronize());
    check(cudaGraphLaunch(ready, stream));
    check(cudaStreamSynchronize(stream));
    EXPECT_TRUE(written() == first) << replay;
  }
  check(cudaGraphExecDestroy(ready));
  check(cudaGraphDestroy(graph));
}

}  // namespace pinch::cuda
