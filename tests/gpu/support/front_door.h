// What tests of the CUDA front doors share: arrays in a device's memory, and a count of what the host allocates.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/common/cuda/runtime.h"

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

}  // namespace pinch::cuda
