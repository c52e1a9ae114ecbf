// Which kernels a captured call launches, by the names that their machine code has.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "pinch/result.h"

namespace pinch::cuda {

struct Launch {
  std::string kernel;     ///< mangled
  int threads = 0;        ///< of a block
  int blocks_per_sm = 0;  ///< that are there at once: as many as fit, and as the grid has
};

/// In the graph's order, for a device of `sm_count` multiprocessors. Errors: kUnsupported where the driver is older
/// than CUDA 12.3; kDevice.
Result<std::vector<Launch>> launches_of(cudaGraph_t graph, int sm_count);

}  // namespace pinch::cuda
