#include "kernels/attention/sm90/model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace pinch::attention::sm90 {

namespace {

using C = ModelConstants;

// Floating-point operations a cycle of a multiprocessor's matrix units, and issue slots: lanes of four schedulers.
constexpr double kBf16Flops = 4096, kE4m3Flops = 8192, kLanes = 128;

double rate(bool e4m3) {
  return e4m3 ? kE4m3Flops : kBf16Flops;
}

double element_instructions(const Tile& tile, PvType pv, const ModelConstants& c) {
  if (pv == PvType::kBf16) return c.shared[C::kElementBf16];
  if (pv == PvType::kFp8) return c.shared[C::kElementFp8];
  return tile.quant == Quant::kLog ? c.shared[C::kElementFp4Log] : c.shared[C::kElementFp4];
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

/// Of a kernel that is not listed the shared constants say all.
double kernel_factor(const Tile& tile, const AttentionProblem& p, const ModelConstants& c) {
  for (std::size_t row = 0; row < listed_tiles().size(); ++row) {
    if (listed_tiles()[row].tile == tile && listed_tiles()[row].kind == kind_of(p)) return c.kernels[row];
  }
  return 1;
}

/// Nanoseconds of one key tile under one query tile.
double step_ns(const Tactic& tactic, const AttentionProblem& p, const ModelConstants& c) {
  const Tile& tile = tactic.tile;
  const double pairs = static_cast<double>(tile.tile_q) * tile.tile_kv, dim = static_cast<double>(p.dim);
  const double products =
      2 * pairs * dim * (1 / rate(p.qk == QkType::kFp8) + 1 / rate(p.pv == PvType::kFp8)) / c.shared[C::kMma];
  const Polynomial poly = polynomial(tile);
  const double exponentials = pairs * (1 - poly.share) / c.shared[C::kExp2];
  const double issued = pairs * (element_instructions(tile, p.pv, c) + poly.share * poly.instructions) / kLanes;
  const double softmax = std::max(exponentials, issued);
  // Sums are rescaled at every step unless a threshold lets the maximum grow.
  const double rescaling = tactic.threshold > 0 ? 0 : c.shared[C::kRescale] * tile.tile_q * dim / kLanes;
  return kernel_factor(tile, p, c) *
         (std::max(products, softmax) + c.shared[C::kOverlap] * std::min(products, softmax) + rescaling) /
         c.shared[C::kClock];
}

double prepare_ns(const AttentionProblem& p, const ModelConstants& c) {
  const auto q = static_cast<double>(p.batch * p.heads * p.seq * p.dim);
  const auto kv = static_cast<double>(p.batch * p.kv_heads * p.kv_seq * p.dim);
  double bytes = 0;
  if (p.pv != PvType::kBf16) bytes += kv * (2 + (p.pv == PvType::kFp8 ? 1 : 0.5625));
  if (p.qk == QkType::kFp8) bytes += (q + kv) * 3;
  return bytes == 0 ? 0 : c.shared[C::kPrepare] + bytes / c.shared[C::kPrepareRate];
}

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::span<const ConstantName> constant_names() {
  static const std::vector<ConstantName> names = [] {
    std::vector<ConstantName> all{{"attention.clock", "GHz"},
                                  {"attention.launch", "ns"},
                                  {"attention.tile", "ns"},
                                  {"attention.mma", "ratio"},
                                  {"attention.overlap", "ratio"},
                                  {"attention.exp2", "ratio"},
                                  {"attention.element_bf16", "ratio"},
                                  {"attention.element_fp8", "ratio"},
                                  {"attention.element_fp4", "ratio"},
                                  {"attention.element_fp4_log", "ratio"},
                                  {"attention.rescale", "ratio"},
                                  {"attention.prepare", "ns"},
                                  {"attention.prepare_rate", "GB/s"}};
    for (const ListedTile& row : listed_tiles()) {
      const std::string tactic = to_string({row.tile});
      all.push_back({fmt::format("d{}/{}/{}/{}", row.kind.dim, pinch::to_string(row.kind.qk),
                                 pinch::to_string(row.kind.pv), tactic.substr(0, tactic.find("/threshold"))),
                     "ratio"});
    }
    return all;
  }();
  return names;
}

Result<ModelConstants> ModelConstants::from(const MachineModel& machine) {
  ModelConstants c;
  for (std::size_t i = 0; i < constant_names().size(); ++i) {
    const auto& [name, unit] = constant_names()[i];
    const auto value = machine.constant(name, unit);
    if (i >= kSharedCount) {
      c.kernels.push_back(value ? *value : 1.0);
    } else if (value) {
      c.shared[i] = *value;
    } else {
      return value.error();
    }
  }
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
  const double longest = static_cast<double>(steps_of(q_tiles - 1)) * step + c.shared[C::kTile];
  const std::int64_t waves = ceil_of(tiles, device.sm_count);
  double busiest = static_cast<double>(waves) * longest;
  if (p.causal) {
    const double shortest = static_cast<double>(steps_of(0)) * step + c.shared[C::kTile];
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
  return {c.shared[C::kLaunch] + busiest + prepare_ns(p, c), tiles, waves};
}

}  // namespace pinch::attention::sm90
