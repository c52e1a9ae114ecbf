#include "kernels/gemm_bf16_fp4/tactic.h"

#include <fmt/core.h>

#include <array>
#include <vector>

#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/packed.h"

namespace pinch {
namespace {

// The inner kernels that exist (cpu/<isa>.cc), with the registers that bound them: a tile of rows x vectors keeps its
// sums in registers, a streaming tile twice as many, the running sums and the current group's.
struct Tile {
  GemmPath path;
  CpuIsa isa;
  int tile_m, tile_n;
};
constexpr GemmPath kStream = GemmPath::kStream, kPanel = GemmPath::kPanel;
constexpr std::array kTiles = {
    Tile{kStream, CpuIsa::kScalar, 1, 16},      Tile{kStream, CpuIsa::kScalar, 4, 16},
    Tile{kPanel, CpuIsa::kScalar, 4, 16},       Tile{kStream, CpuIsa::kAvx2, 1, 16},
    Tile{kStream, CpuIsa::kAvx2, 2, 16},        Tile{kStream, CpuIsa::kAvx2, 4, 16},
    Tile{kPanel, CpuIsa::kAvx2, 4, 16},         Tile{kPanel, CpuIsa::kAvx2, 6, 16},
    Tile{kStream, CpuIsa::kAvx512, 1, 16},      Tile{kStream, CpuIsa::kAvx512, 1, 32},
    Tile{kStream, CpuIsa::kAvx512, 2, 16},      Tile{kStream, CpuIsa::kAvx512, 4, 16},
    Tile{kStream, CpuIsa::kAvx512, 4, 32},      Tile{kStream, CpuIsa::kAvx512, 8, 16},
    Tile{kStream, CpuIsa::kAvx512, 12, 16},     Tile{kPanel, CpuIsa::kAvx512, 6, 64},
    Tile{kPanel, CpuIsa::kAvx512, 8, 48},       Tile{kPanel, CpuIsa::kAvx512, 12, 32},
    Tile{kStream, CpuIsa::kAvx512Bf16, 1, 16},  Tile{kStream, CpuIsa::kAvx512Bf16, 1, 32},
    Tile{kStream, CpuIsa::kAvx512Bf16, 2, 16},  Tile{kStream, CpuIsa::kAvx512Bf16, 4, 16},
    Tile{kStream, CpuIsa::kAvx512Bf16, 4, 32},  Tile{kStream, CpuIsa::kAvx512Bf16, 8, 16},
    Tile{kStream, CpuIsa::kAvx512Bf16, 12, 16}, Tile{kPanel, CpuIsa::kAvx512Bf16, 6, 64},
    Tile{kPanel, CpuIsa::kAvx512Bf16, 8, 48},   Tile{kPanel, CpuIsa::kAvx512Bf16, 12, 32},
    Tile{kStream, CpuIsa::kAmxBf16, 16, 32},    Tile{kStream, CpuIsa::kAmxBf16, 32, 32},
    Tile{kStream, CpuIsa::kAmxBf16, 64, 16},    Tile{kPanel, CpuIsa::kAmxBf16, 32, 256},
    Tile{kPanel, CpuIsa::kAmxBf16, 32, 512},
};
constexpr std::array kPanelBlocks = {256, 512, 1024, 2048};
// Half of a large second-level cache, and the bound that run.cc's workspace counts on.
constexpr std::int64_t kPanelBytes = std::int64_t{1} << 20;

std::int64_t panel_bytes(const CpuTactic& t) {
  return std::int64_t{t.k_block} * t.tile_n * detail::element_bytes(detail::activations_of(t.isa));
}

std::vector<CpuTactic> list_tactics() {
  std::vector<CpuTactic> all;
  for (const Tile& tile : kTiles) {
    for (const Workers workers : {Workers::kAll, Workers::kOne}) {
      for (const Raster raster : {Raster::kAlongM, Raster::kAlongN}) {
        CpuTactic tactic{tile.path, tile.isa, tile.tile_m, tile.tile_n, 0, raster, workers};
        if (tile.path == kStream) {
          all.push_back(tactic);
          continue;
        }
        for (const int k_block : kPanelBlocks) {
          tactic.k_block = k_block;
          all.push_back(tactic);
        }
      }
    }
  }
  return all;
}

// Rows that pass over all channels at once under Raster::kAlongN.
std::int64_t block_rows(const CpuTactic& t) {
  return t.path == kPanel ? detail::round_up(kRowBlock, t.tile_m) : t.tile_m;
}

class CpuFamily final : public TacticFamily {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] std::size_t size() const override { return cpu_tactics().size(); }
  [[nodiscard]] std::string to_string(std::size_t index) const override {
    return pinch::to_string(cpu_tactics()[index]);
  }
  [[nodiscard]] Knobs knobs(std::size_t index) const override {
    const CpuTactic& t = cpu_tactics()[index];
    return {{"path", std::string(pinch::to_string(t.path))},
            {"isa", std::string(pinch::to_string(t.isa))},
            {"tile_m", std::int64_t{t.tile_m}},
            {"tile_n", std::int64_t{t.tile_n}},
            {"k_block", std::int64_t{t.k_block}},
            {"raster", std::string(pinch::to_string(t.raster))},
            {"threads", std::string(pinch::to_string(t.workers))}};
  }
  [[nodiscard]] std::optional<std::string> illegal(std::size_t index, const GemmProblem& problem,
                                                   const Resources& resources) const override {
    return pinch::illegal(cpu_tactics()[index], problem, resources);
  }
  [[nodiscard]] std::span<const std::string_view> models() const override { return cpu_models(); }
  [[nodiscard]] std::string_view calibration(std::string_view model) const override { return cpu_calibration(model); }
  [[nodiscard]] Result<Estimate> estimate(std::string_view model, std::size_t index, const GemmProblem& problem,
                                          const Resources& resources) const override {
    return estimate_cpu(model, index, problem, resources);
  }
  [[nodiscard]] Result<std::optional<RankedTactic>> cheapest(std::string_view model, const GemmProblem& problem,
                                                             const Resources& resources) const override {
    return cheapest_cpu(model, problem, resources);
  }
};

}  // namespace

std::string_view to_string(GemmPath path) {
  return path == GemmPath::kStream ? "stream" : "panel";
}
std::string_view to_string(Raster raster) {
  return raster == Raster::kAlongM ? "along_m" : "along_n";
}
std::string_view to_string(Workers workers) {
  return workers == Workers::kAll ? "all" : "one";
}

std::string to_string(const CpuTactic& t) {
  const std::string k_block = t.path == GemmPath::kPanel ? fmt::format("k{}.", t.k_block) : "";
  return fmt::format("{}.{}.{}x{}.{}{}.{}", to_string(t.path), to_string(t.isa), t.tile_m, t.tile_n, k_block,
                     to_string(t.raster), to_string(t.workers));
}

std::span<const CpuTactic> cpu_tactics() {
  static const std::vector<CpuTactic> all = list_tactics();
  return all;
}

Refusal refusal(const CpuTactic& tactic, const GemmProblem& problem, const Resources& resources) {
  const auto& choice = cpu_choice();
  if (!choice.ok()) return Refusal::kPinchCpu;
  if (!choice->allows(tactic.isa)) return Refusal::kIsa;
  if (panel_bytes(tactic) > kPanelBytes) return Refusal::kPanel;
  if (problem.k % group_size(problem.format) != 0) return Refusal::kK;
  if (tactic.workers == Workers::kOne && resources.threads == 1) return Refusal::kThreads;
  if (tactic.raster == Raster::kAlongN && problem.m <= block_rows(tactic)) return Refusal::kRaster;
  if (tactic.k_block > kPanelBlocks.front() && tactic.k_block / 2 >= problem.k) return Refusal::kKBlock;
  return Refusal::kNone;
}

std::optional<std::string> illegal(const CpuTactic& tactic, const GemmProblem& problem, const Resources& resources) {
  const auto& choice = cpu_choice();
  switch (refusal(tactic, problem, resources)) {
    case Refusal::kNone:
      return std::nullopt;
    case Refusal::kPinchCpu:
      return choice.error().message();
    case Refusal::kIsa:
      return choice->forced ? fmt::format("isa: PINCH_CPU leaves {} alone", to_string(choice->isa))
                            : fmt::format("isa: this CPU goes up to {}", to_string(choice->isa));
    case Refusal::kK:
      return fmt::format("k: {} is not a multiple of the group of {}", problem.k, group_size(problem.format));
    case Refusal::kThreads:
      return "threads: one worker is all there is";
    case Refusal::kRaster:
      return fmt::format("raster: {} rows are one block; along_m is the same", problem.m);
    case Refusal::kPanel:
      return fmt::format("k_block: a panel of {} x {} takes {} bytes; at most {} are allowed", tactic.tile_n,
                         tactic.k_block, panel_bytes(tactic), kPanelBytes);
    case Refusal::kKBlock:
      return fmt::format("k_block: half of {} covers k = {}", tactic.k_block, problem.k);
  }
  return std::nullopt;
}

const TacticFamily& cpu_tactic_family() {
  static const CpuFamily family;
  return family;
}

}  // namespace pinch
