// Both kernels' tactics under one roof, so that checks and timings are written once.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/tactics.h"
#include "tests/gpu/support/problem_data.h"

namespace pinch::gpu_test {

struct Candidate {
  std::string family;   // wgmma or stream
  std::string tactic;   // to_string
  std::string illegal;  // the rule that refuses this problem; empty: legal
  std::size_t workspace_bytes = 0;
  std::function<cudaError_t(void* out, void* workspace, cudaStream_t)> launch;
};

enum class Breadth {
  kPlausible,  // for timings: tiles of a size that fits m
  kListed,     // for ground truth: every legal tactic of the family
};

// The device that is current when this is first asked.
const gemm_bf16_fp4::sm90::Device& tactics_device();

// Nothing where this build has no kernel of the tactic's. Of the first m rows of `data`, which must outlive the result.
std::optional<Candidate> candidate(const ProblemData& data, int m, bool f32, const gemm_bf16_fp4::sm90::Tactic& tactic);
std::vector<Candidate> candidates(const ProblemData& data, int m, bool f32, Breadth breadth);

}  // namespace pinch::gpu_test
