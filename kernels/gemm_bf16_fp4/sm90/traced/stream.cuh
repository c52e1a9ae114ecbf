// The streaming kernel of PINCH_STREAM, for program.cuh.
#pragma once

#include <optional>

#include "kernels/gemm_bf16_fp4/sm90/stream/launch.cuh"
#include "kernels/gemm_bf16_fp4/sm90/traced/program_types.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

struct TracedKernel {
  using Tactic = StreamTactic;
  static constexpr StreamInstance kInstance{PINCH_STREAM};

  static std::optional<Tactic> parse(const char* text) {
    Tactic tactic;
    return sm90::parse(text, &tactic) && instance_of(tactic) == kInstance ? std::optional(tactic) : std::nullopt;
  }

  StreamProblem problem;
  StreamDevice device;

  std::string illegal(const Tactic& tactic) const {
    const char* const why = sm90::illegal(tactic, problem, device);
    return why == nullptr ? "" : why;
  }
  std::size_t workspace(const Tactic& tactic) const { return stream_workspace_bytes(tactic, problem.n, device); }
  cudaError_t launch(const Tactic& tactic, const Call& c) const {
    const StreamArgs args{.a = c.a,
                          .lda = problem.k,
                          .codes = c.codes,
                          .scales = c.scales,
                          .out = c.out,
                          .ldo = problem.n,
                          .workspace = c.workspace,
                          .m = problem.m,
                          .n = problem.n,
                          .k = problem.k,
                          .alpha = 1,
                          .acc_scale = std::ldexp(1.0F, kAccExponent),
                          .out_f32 = kF32};
    return sm90::launch<kFormat, kInstance>(tactic, args, device, nullptr);
  }

  static trace::Names names() {
    return {{{"stream", true}, {"join"}},
            {{"activations"}, {"weights"}, {"team", StreamRole::kStream}, {"sums", StreamRole::kJoin}},
            {"multiply"}};
  }
  trace::CudaRoom room(const Tactic& t) const {
    const int ctas = device.sm_count * t.blocks_per_sm, teams = ctas / t.split_k * (t.warps / t.k_warps);
    const int groups = (problem.n + 16 * t.row_tiles - 1) / (16 * t.row_tiles) / teams + 2;  // of a team
    const int steps = (problem.k / kTileCols + 1) / t.split_k / (t.k_warps * t.in_flight) + 2;
    // Twice, since not every SM may hold a cluster.
    return {.ctas = static_cast<std::uint32_t>(ctas),
            .warps_of_cta = static_cast<std::uint32_t>(t.warps),
            .events_of_warp = static_cast<std::uint32_t>(2 * groups * (steps * (1 + 2 * t.in_flight) + 8) + 64)};
  }
};

inline TracedKernel traced_kernel(int m, int n, int k, int) {
  TracedKernel kernel{{m, n, k}, {}};
  PINCH_CHECK((query_stream_device<kFormat, TracedKernel::kInstance>(&kernel.device)));
  return kernel;
}

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90
