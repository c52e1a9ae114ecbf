// Device 0 of the CUDA driver, opened at run time: no toolkit is needed to build this and no driver to start it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "pinch/result.h"

namespace pinch::probe {

struct CudaAbout {
  std::string name;
  int sm = 0;               ///< 90
  int cuda = 0;             ///< that the driver serves: 13000
  std::string driver = {};  ///< its own version, "580.159.04"; empty where it does not say
};

class CudaDevice {
 public:
  /// Errors: kUnsupported where there is no driver or no device, with what the driver said.
  static Result<std::unique_ptr<CudaDevice>> open();
  virtual ~CudaDevice() = default;

  [[nodiscard]] virtual const CudaAbout& about() const = 0;
  /// Errors: kDevice with the driver's word, as for code of another architecture.
  virtual Result<void> load(const std::string& cubin) = 0;
  /// Runs one block of `threads` and returns the SM cycles from the first warp's start to the last warp's end. Errors:
  /// kDevice with the driver's word, after which the process can do nothing more with the device; kDevice where the
  /// SM's clock did not go forward.
  virtual Result<double> cycles(const std::string& kernel, int threads, int iterations) = 0;
};

using OpenCudaDevice = std::function<Result<std::unique_ptr<CudaDevice>>()>;

}  // namespace pinch::probe
