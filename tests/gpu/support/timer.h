// Cold-L2 times of captured work: a graph replayed between two events after 256 MiB of other data were read.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>

#include "tests/gpu/support/device_buffer.h"

namespace pinch::gpu_test {

class Timer {
 public:
  Timer();
  ~Timer();
  Timer(const Timer&) = delete;

  // nullptr when `work` (which enqueues on stream()) returns false.
  cudaGraphExec_t capture(const std::function<bool()>& work) const;
  double sample_us(cudaGraphExec_t graph) const;
  cudaStream_t stream() const { return stream_; }

  // Yardsticks to capture: a kernel that does nothing, and one read of some bytes.
  bool enqueue_null() const;
  bool enqueue_read(const void* bytes, std::size_t count) const;

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_, end_;
  DeviceBuffer<uint4> flush_;
  DeviceBuffer<std::uint32_t> sink_;
};

}  // namespace pinch::gpu_test
