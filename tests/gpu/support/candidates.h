// Both kernels' tactics under one roof, so that checks and timings are written once.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/support/problem_data.h"

namespace pinch::gpu_test {

struct Candidate {
  std::string family;          // wgmma or stream
  std::string tactic;          // to_string
  std::string illegal;         // the rule that refuses this problem; empty: legal
  bool must_be_legal = false;  // the tile's default schedule, which no rule may refuse
  std::size_t workspace_bytes = 0;
  std::function<cudaError_t(void* out, void* workspace, cudaStream_t)> launch;
};

enum class Breadth {
  kEverySchedule,  // for checks: each split and raster that changes what a kernel does
  kPlausible,      // for timings: tiles of a size that fits m
  kListed,         // for ground truth: every legal tactic of the family
};

// Of the first m rows of `data`, which must outlive the result.
std::vector<Candidate> candidates(const ProblemData& data, int m, bool f32, Breadth breadth);

}  // namespace pinch::gpu_test
