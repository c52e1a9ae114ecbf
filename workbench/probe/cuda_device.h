// Device 0 of the CUDA driver, opened at run time: no toolkit is needed to build this and no driver to start it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pinch/result.h"

namespace pinch::probe {

class CudaDevice {
 public:
  /// Errors: kUnsupported where there is no driver or no device, with what the driver said.
  static Result<std::unique_ptr<CudaDevice>> open();
  virtual ~CudaDevice() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual int sm() const = 0;      ///< 90
  [[nodiscard]] virtual int driver() const = 0;  ///< 13000
  /// Errors: kUnsupported with the driver's word, as for code of another architecture.
  virtual Result<void> load(const std::string& cubin) = 0;
  /// Runs one block of `threads` and returns the SM cycles from the first warp's start to the last warp's end.
  virtual Result<double> cycles(const std::string& kernel, int threads, int iterations) = 0;
};

}  // namespace pinch::probe
