// The CUDA devices of this machine, asked of the driver, which is opened when they are first asked for: a program that
// links Pinch starts where there is no driver, no GPU and no toolkit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pinch/result.h"

namespace pinch::cuda {

/// A stream of the caller's: pass a cudaStream_t or CUstream. Null is the device's default stream.
using Stream = void*;

struct Device {
  int ordinal = 0;   ///< what cudaSetDevice takes; CUDA_VISIBLE_DEVICES decides what is seen and in which order
  std::string name;  ///< "NVIDIA H200"
  std::string uuid;  ///< of this very card, 32 hexadecimal digits
  int major = 0;     ///< compute capability
  int minor = 0;
  int sm_count = 0;  ///< streaming multiprocessors
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
};

/// Every device, by ordinal. Read once per process. Errors: kUnsupported where no driver can be opened, where it
/// refuses (its own name for why) or where it lists no device.
const Result<std::vector<Device>>& devices();

/// A device that the sm_90a kernels run on. Errors: those of devices(); kNotFound for an ordinal that is not there,
/// naming those that are; kUnsupported, naming the device and its compute capability, for one that is not 9.0.
Result<Device> sm90_device(int ordinal);

/// Version of the kernel driver, "580.159.04"; empty where it does not say.
const std::string& driver_version();

}  // namespace pinch::cuda
