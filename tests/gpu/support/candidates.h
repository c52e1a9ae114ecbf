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
  std::string family;               // wgmma or stream
  std::string tactic;               // to_string
  const void* kernel = nullptr;     // what was compiled; tactics that differ in launch axes alone share it
  std::size_t workspace_bytes = 0;  // none if a rule of the kernel refuses this problem
  std::function<cudaError_t(void* out, void* workspace, cudaStream_t)> launch;
};

// The device that is current when this is first asked.
const gemm_bf16_fp4::sm90::Device& tactics_device();

// Nothing where this build has no kernel of the tactic's. Of the first m rows of `data`, which must outlive the result.
std::optional<Candidate> candidate(const ProblemData& data, int m, bool f32, const gemm_bf16_fp4::sm90::Tactic& tactic);
// Every listed tactic that is legal and built.
std::vector<Candidate> candidates(const ProblemData& data, int m, bool f32);

}  // namespace pinch::gpu_test
