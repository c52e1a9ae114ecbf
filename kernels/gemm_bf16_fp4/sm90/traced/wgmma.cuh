// The wgmma kernel of PINCH_TILE, for program.cuh.
#pragma once

#include <optional>

#include "kernels/gemm_bf16_fp4/sm90/launch.cuh"
#include "kernels/gemm_bf16_fp4/sm90/traced/program_types.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

struct TracedKernel {
  using Tactic = WgmmaTactic;
  using Traits = WgmmaTraits<WgmmaTile{PINCH_TILE}, kFormat, Output>;

  static std::optional<Tactic> parse(const char* text) {
    auto tactic = parse_wgmma_tactic(text);
    return tactic && tactic->tile == Traits::kTile ? tactic : std::nullopt;
  }

  WgmmaProblem problem;
  WgmmaDevice device;

  std::string illegal(const Tactic& tactic) const { return std::string(sm90::illegal(tactic, problem, device)); }
  std::size_t workspace(const Tactic& tactic) const { return workspace_bytes(tactic, problem, device); }
  cudaError_t launch(const Tactic& tactic, const Call& c) const {
    const WgmmaArgs args{c.a,   problem.k, c.codes,   c.scales,  1.0F,      kAccExponent,
                         c.out, problem.n, problem.m, problem.n, problem.k, c.workspace};
    return sm90::launch<Traits>(tactic, args, device, nullptr);
  }

  static trace::Names names() {
    return {{{"producer"}, {"consumer", true}, {"epilogue"}},
            {{"empty", TraceRole::kConsumer}, {"full", TraceRole::kProducer}},
            {"issue", "drain", "decode"}};
  }
  trace::CudaRoom room(const Tactic& tactic) const {
    const Schedule schedule = make_schedule(tactic, problem, device);
    const std::int64_t steps = std::int64_t{schedule.tiles()} * (schedule.k_iterations + 2) / schedule.workers + 1;
    return {.ctas = static_cast<std::uint32_t>(grid_ctas(tactic.tile, schedule)),
            .warps_of_cta = Traits::kThreads / 32,
            .events_of_warp = static_cast<std::uint32_t>(steps) * 16 + 64};
  }
};

inline TracedKernel traced_kernel(int m, int n, int k, int sms) {
  return {{m, n, k}, {sms}};
}

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90
