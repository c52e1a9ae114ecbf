// Attention forward as a task, on the CPU's cores or a CUDA device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/attention_problem.h"
#include "workbench/ladder/task.h"

namespace pinch::ladder {

Work attention_work(const AttentionProblem& problem, std::string_view numerics);

/// Magnitudes 2^-3 to 2^1, both signs: fast enough for sets larger than the caches.
std::vector<Bf16> attention_values(std::int64_t count, std::uint64_t seed);

/// Inputs are random, of uniform magnitudes below 2; a cold call takes other ones. Errors: an invalid problem;
/// PINCH_CPU names an instruction set that does not exist or that this machine lacks.
Result<std::unique_ptr<Task>> make_cpu_attention_task(const AttentionProblem& problem, int threads);

/// Inputs are random, as on the CPU. `sources`: the folder of this project, where the kernel with marks is compiled
/// from. Errors: an invalid problem; kUnsupported where this build has no CUDA kernels,
/// where there is no driver, no device or none that they run on; kNotFound for a device that is not there.
Result<std::unique_ptr<Task>> make_cuda_attention_task(const AttentionProblem& problem, int device,
                                                       const std::string& sources);

}  // namespace pinch::ladder
