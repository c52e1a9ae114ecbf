// Attention forward as a task; on the CPU today.
#pragma once

#include <memory>

#include "pinch/attention_problem.h"
#include "workbench/ladder/task.h"

namespace pinch::ladder {

/// Inputs are random, of uniform magnitudes below 2; a cold call takes other ones. Errors: an invalid problem;
/// PINCH_CPU names an instruction set that does not exist or that this machine lacks.
Result<std::unique_ptr<Task>> make_cpu_attention_task(const AttentionProblem& problem, int threads);

}  // namespace pinch::ladder
