// Cost models of the `cpu` family.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "kernels/gemm_bf16_fp4/packed.h"
#include "kernels/gemm_bf16_fp4/tactic.h"

namespace pinch {
namespace {

constexpr std::array<std::string_view, 1> kModels = {"work"};

// Multiply-adds an instruction and lane width, relative to the scalar path.
constexpr double relative_rate(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      return 1;
    case CpuIsa::kAvx2:
      return 16;
    case CpuIsa::kAvx512:
      return 32;
    case CpuIsa::kAvx512Bf16:
      return 40;
    case CpuIsa::kAmxBf16:
      return 128;
  }
  return 1;
}

// Multiply-adds including padding, plus decoding counted as that of 16 rows a pass on the panel path.
Estimate work(const CpuTactic& t, const GemmProblem& p, const Resources& r) {
  const std::int64_t tiles_m = detail::ceil_div(p.m, t.tile_m), tiles_n = detail::ceil_div(p.n, t.tile_n);
  const int workers = t.workers == Workers::kOne ? 1 : std::max(1, r.threads);
  const double rows = static_cast<double>(tiles_m * t.tile_m);
  const double passes = t.path == GemmPath::kStream   ? static_cast<double>(tiles_m) * 0.25
                        : t.raster == Raster::kAlongM ? 1.0
                                                      : static_cast<double>(detail::ceil_div(p.m, kRowBlock));
  const double depth = static_cast<double>(p.n) * static_cast<double>(p.k);
  const double spread = static_cast<double>(std::min<std::int64_t>(workers, tiles_m * tiles_n));
  Estimate e;
  e.cost = depth * (rows + 16 * passes) / relative_rate(t.isa) / spread;
  e.unit = "scalar_multiply_adds";
  e.ctas = tiles_m * tiles_n;
  e.waves = detail::ceil_div(e.ctas, workers);
  return e;
}

}  // namespace

std::span<const std::string_view> cpu_models() {
  return kModels;
}

Result<Estimate> estimate_cpu(std::string_view model, const CpuTactic& tactic, const GemmProblem& problem,
                              const Resources& resources) {
  if (model == kModels[0]) return work(tactic, problem, resources);
  return Error{ErrorCode::kInvalidArgument, fmt::format("no model '{}' of the cpu family; there is 'work'", model), ""};
}

}  // namespace pinch
