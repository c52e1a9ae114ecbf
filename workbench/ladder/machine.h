// This machine and build, as far as results depend on them.
#pragma once

#include <string>

#include "pinch/result.h"

namespace pinch::ladder {

struct Machine {
  std::string device;  ///< brand, family, model, stepping, cores, caches
  std::string brand;
  int cores = 1;
  std::string isa;  ///< "avx512_bf16", or "avx2 alone" where PINCH_CPU forces it
  std::string binary;
  std::string compiler;
};

/// Errors: PINCH_CPU names an instruction set that does not exist or that this machine lacks.
Result<Machine> describe_machine();

/// The number of worker threads to use for `asked` (0: every core of the process). Errors: below 0, or more than the
/// process may run on, which would only measure the scheduler.
Result<int> choose_threads(int asked);

}  // namespace pinch::ladder
