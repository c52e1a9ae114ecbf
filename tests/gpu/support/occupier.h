// Other work on the device: keeps so many multiprocessors to itself while it lives.
#pragma once

#include <cuda_runtime.h>

namespace pinch::gpu_test {

class Occupier {
 public:
  /// Returns when `sms` multiprocessors are taken, all of their shared memory and so every place for a block.
  explicit Occupier(int sms);
  ~Occupier();
  Occupier(const Occupier&) = delete;
  Occupier& operator=(const Occupier&) = delete;

  /// Whether what has been enqueued on the default stream ends meanwhile.
  [[nodiscard]] bool others_end_within_seconds(double seconds) const;

 private:
  struct Shared {  // of host and device
    volatile int begun, end;
  };
  cudaStream_t stream_ = nullptr;
  Shared* shared_ = nullptr;
};

}  // namespace pinch::gpu_test
