#include "kernels/gemm_bf16_fp4/sm90/model.h"

#include <array>
#include <cmath>

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

// In the order of kModelNames.
enum class Model { kPinch, kPr, kWaves, kFirst, kRoller };
constexpr std::array<std::string_view, 5> kModelNames{"pinch", "pr", "waves", "first", "roller"};

Grid grid_of(const WgmmaTactic& tactic, const WgmmaProblem& problem, const WgmmaDevice& device) {
  const WgmmaTile& tile = tactic.tile;
  const Schedule s = make_schedule(tactic, problem, device);
  const int cluster = tile.cluster_n * tile.cluster_k;
  Grid grid;
  grid.tile_n = tile.tile_n;
  grid.tile_m = tile.tile_m;
  grid.k_parts = s.split > 1 ? s.split : tile.cluster_k;
  grid.ctas = std::int64_t{s.tiles()} * cluster * (s.split > 1 ? s.split : 1);
  grid.slots = device.sm_count / cluster * cluster;
  grid.even = tactic.split_k == kStreamK;
  return grid;
}

Grid grid_of(const StreamTactic& tactic, const StreamProblem& problem, const StreamDevice& device) {
  const int teams = tactic.warps / tactic.k_warps;
  Grid grid;
  grid.tile_n = 16.0 * tactic.row_tiles * teams;
  grid.tile_m = 8.0 * tactic.m_blocks;
  grid.k_parts = tactic.split_k;
  grid.ctas = ceil_div(problem.n, 16 * tactic.row_tiles * teams) * tactic.split_k;
  grid.ctas_per_sm = tactic.blocks_per_sm;
  grid.slots = std::int64_t{device.sm_count} * tactic.blocks_per_sm;
  grid.even = tactic.balance == 1;
  return grid;
}

// Bytes that a CTA moves: weights and activations over its part of k, and its output.
double traffic_bytes(const Grid& grid, const ModelProblem& call) {
  return call.sizes.k / grid.k_parts * (grid.tile_n * weight_bytes(call.format) + grid.tile_m * 2) +
         grid.tile_n * grid.tile_m * output_bytes(call.output);
}

}  // namespace

double Grid::waves() const {
  const double exact = static_cast<double>(ctas) / static_cast<double>(slots);
  return even ? exact : std::ceil(exact);
}

Grid grid_of(const Tactic& tactic, const WgmmaProblem& problem, const Device& device) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) return grid_of(*wgmma, problem, device.wgmma);
  return grid_of(std::get<StreamTactic>(tactic), StreamProblem{problem.m, problem.n, problem.k}, device.stream);
}

std::span<const std::string_view> models() {
  return kModelNames;
}

Estimate estimate(std::size_t model, std::size_t index, const ModelProblem& call, const Device& device) {
  const Grid grid = grid_of(tactics()[index], call.sizes, device);
  Estimate e;
  e.ctas = grid.ctas;
  e.waves = ceil_div(grid.ctas, grid.slots);
  switch (static_cast<Model>(model)) {
    case Model::kPinch:
      e.cost = h200_time_model().nanoseconds(index, call, device);
      e.unit = "ns";
      break;
    case Model::kPr:
      // CTAs that share a multiprocessor share its bandwidth, so each of them counts.
      e.cost = grid.waves() * grid.ctas_per_sm * (grid.tile_n + 4 * grid.tile_m) / grid.k_parts;
      e.unit = "half_bytes";
      break;
    case Model::kWaves:
      e.cost = grid.waves();
      e.unit = "waves";
      break;
    case Model::kFirst:
      e.cost = static_cast<double>(index);
      e.unit = "index";
      break;
    case Model::kRoller:
      e.cost = grid.waves() * grid.ctas_per_sm * (traffic_bytes(grid, call) + 1);
      e.unit = "bytes";
      break;
  }
  return e;
}

std::optional<RankedTactic> cheapest(std::size_t model, const ModelProblem& call, const Device& device) {
  if (static_cast<Model>(model) == Model::kPinch) return h200_time_model().cheapest(call, device);
  std::optional<RankedTactic> best;
  for (std::size_t index = 0; index < tactics().size(); ++index) {
    if (!illegal(tactics()[index], call.sizes, device).empty()) continue;
    const Estimate e = estimate(model, index, call, device);
    if (!best || e.cost < best->estimate.cost) best = RankedTactic{index, e};
  }
  return best;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
