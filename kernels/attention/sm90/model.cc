#include "kernels/attention/sm90/model.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace pinch::attention::sm90 {

namespace {

// Floating-point operations a cycle of a multiprocessor's matrix units, and issue slots: lanes of four schedulers.
constexpr double kBf16Flops = 4096, kE4m3Flops = 8192, kLanes = 128;

double rate(bool e4m3) {
  return e4m3 ? kE4m3Flops : kBf16Flops;
}

double element_instructions(const Tile& tile, PvType pv, const ModelConstants& c) {
  if (pv == PvType::kBf16) return c.element_bf16;
  if (pv == PvType::kFp8) return c.element_fp8;
  return tile.quant == Quant::kLog ? c.element_fp4_log : c.element_fp4;
}

/// Instructions of an exponential by polynomial, and how many of the exponentials are.
struct Polynomial {
  double instructions, share;
};
Polynomial polynomial(const Tile& tile) {
  constexpr double kRounding = 6;  // clamp, round, two subtractions, shift, add
  switch (tile.exp2) {
    case Exp2::kHardware:
      return {0, 0};
    case Exp2::kPoly3:
      return {kRounding + 3, 1};
    case Exp2::kPoly4:
      return {kRounding + 4, 1};
    case Exp2::kPoly5:
      return {kRounding + 5, 1};
    case Exp2::kMixed:
      return {kRounding + 3, tile.sixteenths / 16.0};
  }
  return {0, 0};
}

/// Nanoseconds of one key tile under one query tile.
double step_ns(const Tactic& tactic, const AttentionProblem& p, const ModelConstants& c) {
  const Tile& tile = tactic.tile;
  const double pairs = static_cast<double>(tile.tile_q) * tile.tile_kv, dim = static_cast<double>(p.dim);
  const double products = 2 * pairs * dim * (1 / rate(p.qk == QkType::kFp8) + 1 / rate(p.pv == PvType::kFp8)) / c.mma;
  const Polynomial poly = polynomial(tile);
  const double exponentials = pairs * (1 - poly.share) / c.exp2_lanes;
  // Sums are rescaled at every step unless a threshold lets the maximum grow.
  const double rescale = tactic.threshold > 0 ? 0 : dim / tile.tile_kv;
  const double issued =
      pairs * (element_instructions(tile, p.pv, c) + poly.share * poly.instructions + rescale) / kLanes;
  const double softmax = std::max(exponentials, issued);
  return (std::max(products, softmax) + c.overlap * std::min(products, softmax)) / c.clock_ghz;
}

double prepare_ns(const AttentionProblem& p, const ModelConstants& c) {
  const auto q = static_cast<double>(p.batch * p.heads * p.seq * p.dim);
  const auto kv = static_cast<double>(p.batch * p.kv_heads * p.kv_seq * p.dim);
  double bytes = 0;
  if (p.pv != PvType::kBf16) bytes += kv * (2 + (p.pv == PvType::kFp8 ? 1 : 0.5625));
  if (p.qk == QkType::kFp8) bytes += (q + kv) * 3;
  return bytes == 0 ? 0 : c.prepare_ns + bytes / c.prepare_gbps;
}

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Result<ModelConstants> ModelConstants::from(const MachineModel& machine) {
  ModelConstants c{};
  const auto read = [&](double& value, std::string_view name, std::string_view unit) -> Result<void> {
    PINCH_ASSIGN(held, machine.constant(name, unit));
    value = held;
    return {};
  };
  PINCH_TRY(read(c.clock_ghz, "attention.clock", "GHz"));
  PINCH_TRY(read(c.launch_ns, "attention.launch", "ns"));
  PINCH_TRY(read(c.tile_ns, "attention.tile", "ns"));
  PINCH_TRY(read(c.mma, "attention.mma", "ratio"));
  PINCH_TRY(read(c.overlap, "attention.overlap", "ratio"));
  PINCH_TRY(read(c.exp2_lanes, "attention.exp2", "ratio"));
  PINCH_TRY(read(c.element_bf16, "attention.element_bf16", "ratio"));
  PINCH_TRY(read(c.element_fp8, "attention.element_fp8", "ratio"));
  PINCH_TRY(read(c.element_fp4, "attention.element_fp4", "ratio"));
  PINCH_TRY(read(c.element_fp4_log, "attention.element_fp4_log", "ratio"));
  PINCH_TRY(read(c.prepare_ns, "attention.prepare", "ns"));
  PINCH_TRY(read(c.prepare_gbps, "attention.prepare_rate", "GB/s"));
  return c;
}

const ModelConstants& h200_constants() {
  // The constants are part of the build and a test reads each of them.
  static const ModelConstants constants = ModelConstants::from(h200_attention_machine_model()).value();
  return constants;
}

Cost cost(const Tactic& tactic, const AttentionProblem& p, const DeviceFacts& device, const ModelConstants& c) {
  const Tile& tile = tactic.tile;
  const std::int64_t q_tiles = ceil_of(p.seq, tile.tile_q), heads = p.batch * p.heads, tiles = q_tiles * heads;
  const auto sms = static_cast<double>(device.sm_count);
  const double step = step_ns(tactic, p, c);
  // Key tiles of the first, the last and all query tiles of a head: their causal rows see ever more.
  const auto steps_of = [&](std::int64_t q_tile) {
    const std::int64_t last_row = std::min(p.seq, (q_tile + 1) * tile.tile_q) - 1;
    return ceil_of(visible_keys(p.causal, last_row, p.seq, p.kv_seq), tile.tile_kv);
  };
  const double longest = static_cast<double>(steps_of(q_tiles - 1)) * step + c.tile_ns;
  const std::int64_t waves = ceil_of(tiles, device.sm_count);
  double busiest = static_cast<double>(waves) * longest;
  if (p.causal) {
    const double shortest = static_cast<double>(steps_of(0)) * step + c.tile_ns;
    const double all = static_cast<double>(tiles) * (shortest + longest) / 2;
    // Dynamic: longest first, so the last to end is one of the shortest. Static: of each round of tiles the first CTA
    // has the longest.
    double late = shortest;
    if (tactic.schedule == Schedule::kStatic) {
      const double of_round = std::min(1.0, sms / static_cast<double>(make_walk(tactic, p, device).group * q_tiles));
      late += static_cast<double>(waves) * of_round * (longest - shortest) / 2;
    }
    busiest = std::min(busiest, std::max(longest, all / sms + late * (1 - 1 / sms)));
  }
  return {c.launch_ns + busiest + prepare_ns(p, c), tiles, waves};
}

}  // namespace pinch::attention::sm90
