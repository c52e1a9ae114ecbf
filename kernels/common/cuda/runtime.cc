#include "kernels/common/cuda/runtime.h"

#include <algorithm>
#include <string>

namespace pinch::cuda {

Error error_of(cudaError_t error, std::string_view doing) {
  const std::string text = std::string(doing) + ": " + cudaGetErrorName(error) + ": " + cudaGetErrorString(error);
  switch (error) {
    case cudaErrorMemoryAllocation:
      return {ErrorCode::kOutOfMemory, text, "device"};
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorCompatNotSupportedOnDevice:
      return {ErrorCode::kUnsupported, text, "device"};
    default:
      return {ErrorCode::kDevice, text, "device"};
  }
}

Result<DeviceMemory> DeviceMemory::allocate(int device, std::size_t bytes) {
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
  if (error != cudaSuccess) {
    cudaGetLastError();  // a refused allocation breaks nothing: the next call must not find it
    return error_of(error, "allocating " + std::to_string(bytes) + " bytes");
  }
  return DeviceMemory(device, bytes, static_cast<std::byte*>(data));
}

}  // namespace pinch::cuda
