// This machine and build, as far as results depend on them.
#pragma once

#include <string>
#include <string_view>

#include "pinch/result.h"
#include "pinch/tactics.h"

namespace pinch::ladder {

struct Machine {
  std::string device;  ///< brand, family, model, stepping, cores, caches; of a GPU its driver too. Empty: unknown
  std::string brand;
  int cores = 1;
  std::string_view core_name = "cores";  ///< what `cores` counts: "SMs" of a GPU
  std::string isa;  ///< "avx512_bf16", or "avx2 alone" where PINCH_CPU forces it; "sm_90a, CUDA 13.0"
  std::string binary;
  std::string compiler;
};

/// Errors: PINCH_CPU names an instruction set that does not exist or that this machine lacks.
Result<Machine> describe_machine();

/// "2 threads", "132 SMs".
std::string to_text(const Resources& resources);

/// The number of worker threads to use for `asked` (0: every core of the process). Errors: below 0, or more than the
/// process may run on, which would only measure the scheduler.
Result<int> choose_threads(int asked);

}  // namespace pinch::ladder
