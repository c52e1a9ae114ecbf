// Device memory with an owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tests/gpu/support/cuda_check.h"

namespace pinch::gpu_test {

template <typename T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t size) : size_(size) {
    PINCH_CUDA_CHECK(cudaMalloc(&data_, std::max<std::size_t>(size, 1) * sizeof(T)));
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }

  void fill_bytes(int byte) { PINCH_CUDA_CHECK(cudaMemset(data_, byte, size_ * sizeof(T))); }
  std::vector<T> download() const {
    std::vector<T> host(size_);
    PINCH_CUDA_CHECK(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pinch::gpu_test
