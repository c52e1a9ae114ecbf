// The CUDA runtime with owners and Errors: what host code of kernels and of the workbench builds on.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "pinch/result.h"

namespace pinch::cuda {

/// What failed while `doing`, by CUDA's own name and text. kOutOfMemory for a refused allocation, kUnsupported where
/// the driver, the device or the build cannot run this, else kDevice.
Error error_of(cudaError_t error, std::string_view doing);

/// The same as a Result: nothing for cudaSuccess.
inline Result<void> check(cudaError_t error, std::string_view doing) {
  if (error == cudaSuccess) return {};
  return error_of(error, doing);
}

/// Makes a device current for the calling thread, and the one before it again at the end. Ask ok() before relying on
/// it.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    status_ = cudaGetDevice(&before_);
    if (status_ == cudaSuccess && before_ != device) {
      status_ = cudaSetDevice(device);
      changed_ = status_ == cudaSuccess;
    }
  }
  ~DeviceScope() {
    if (changed_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  [[nodiscard]] Result<void> ok() const { return check(status_, "making the device current"); }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t status_ = cudaSuccess;
};

/// Bytes of a device's memory, freed with their owner.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Errors: kOutOfMemory, naming how many bytes; a device that does not answer.
  static Result<DeviceMemory> allocate(int device, std::size_t bytes);

  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(other.device_), bytes_(std::exchange(other.bytes_, 0)), data_(std::exchange(other.data_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceMemory() { cudaFree(data_); }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] int device() const { return device_; }

 private:
  DeviceMemory(int device, std::size_t bytes, std::byte* data) : device_(device), bytes_(bytes), data_(data) {}
  int device_ = 0;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace pinch::cuda
