#include "kernels/attention/tactic.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/attention/cpu/run.h"

namespace pinch {
namespace {

using attention::ceil_div;
using attention::Exp2;
using attention::KernelShape;
using attention::Quant;
using attention::round_up;

struct Tile {
  CpuIsa isa;
  int tile_q, tile_kv;
};
// Rows in whole blocks of the kernels' own; keys in whole panels. A panel of keys passes under tile_q rows before the
// next: it is read from the second-level cache that often less.
constexpr std::array kTiles = {
    Tile{CpuIsa::kScalar, 32, 64},      Tile{CpuIsa::kAvx2, 48, 64},        Tile{CpuIsa::kAvx2, 96, 128},
    Tile{CpuIsa::kAvx512, 48, 128},     Tile{CpuIsa::kAvx512, 96, 128},     Tile{CpuIsa::kAvx512, 96, 256},
    Tile{CpuIsa::kAvx512Bf16, 48, 128}, Tile{CpuIsa::kAvx512Bf16, 96, 128}, Tile{CpuIsa::kAvx512Bf16, 96, 256},
    Tile{CpuIsa::kAmxBf16, 32, 256},    Tile{CpuIsa::kAmxBf16, 64, 128},    Tile{CpuIsa::kAmxBf16, 64, 256},
    Tile{CpuIsa::kAmxBf16, 128, 256},   Tile{CpuIsa::kAmxBf16, 64, 512},
};

std::vector<AttentionCpuTactic> list_tactics() {
  std::vector<AttentionCpuTactic> all;
  for (const Tile& tile : kTiles) {
    for (const AttentionSplit split : {AttentionSplit::kHeads, AttentionSplit::kTiles}) {
      for (const Exp2 exp2 : {Exp2::kPoly3, Exp2::kPoly4, Exp2::kPoly5}) {
        for (const Quant quant : {Quant::kLinear, Quant::kLog}) {
          all.push_back({tile.isa, tile.tile_q, tile.tile_kv, split, exp2, quant});
        }
      }
    }
  }
  return all;
}

// Floating-point operations a cycle and core of each set's products, softmax elements a cycle, and cycles of packing a
// key and a value of dim 1. Measured on an Emerald Rapids Xeon but for the last two rows of each maker: VDPBF16PS takes
// two cycles there and one on Zen 4, whose FP32 multiply-adds take two ports of 256 bits each.
struct Rates {
  double flops, softmax, pack;
};
Rates rates_of(CpuIsa isa) {
  const bool amd = cpu_machine().vendor == "AuthenticAMD";
  switch (isa) {
    case CpuIsa::kScalar:
      return {1.5, 0.05, 4};
    case CpuIsa::kAvx2:
      return {28, 0.5, 2};
    case CpuIsa::kAvx512:
      return {amd ? 30.0 : 58.0, 1.2, 2};
    case CpuIsa::kAvx512Bf16:
      return {amd ? 58.0 : 30.0, 1.2, 1.5};
    case CpuIsa::kAmxBf16:
      return {600, 1.2, 1.5};
  }
  return {1, 1, 1};
}

constexpr std::array<std::string_view, 1> kModels = {"cycles"};

// Cycles of the busiest worker. Blocks of rows skip panels that none of their rows sees, so of a causal problem about
// half a block and half a panel a row remain beyond the visible pairs.
double cycles(const AttentionCpuTactic& t, const AttentionProblem& p, int threads) {
  const KernelShape shape = attention::shape_of(t.isa);
  const Rates rates = rates_of(t.isa);
  const auto dim = static_cast<double>(p.dim);
  const auto rows = static_cast<double>(round_up(p.seq, shape.rows));
  const auto keys = static_cast<double>(round_up(p.kv_seq, shape.columns));
  double pairs = rows * keys;
  if (p.causal) {
    const double visible = attention_flops(p) / (4 * dim * static_cast<double>(p.batch * p.heads));
    pairs = std::min(pairs, visible + rows * (shape.rows + shape.columns) / 2);
  }
  // Sums of a tile are read, rescaled and stored once a key tile; panels are read once a query tile.
  const double rescale = rows * static_cast<double>(ceil_div(p.kv_seq, t.tile_kv)) * dim * (p.causal ? 0.5 : 1) / 4;
  const double panels =
      pairs / std::min<double>(t.tile_q, rows) * dim * static_cast<double>(element_bytes(shape.element)) / 64;
  const double head = 4 * pairs * dim / rates.flops + pairs / rates.softmax + rescale + panels;
  const double pack = static_cast<double>(p.kv_seq) * dim * rates.pack;
  const auto group = static_cast<double>(p.heads / p.kv_heads), kv_pairs = static_cast<double>(p.batch * p.kv_heads);
  // The last round may leave workers idle.
  const auto busiest = [&](double items) {
    const double workers = std::min<double>(threads, items);
    return static_cast<double>(ceil_div(static_cast<std::int64_t>(items), static_cast<std::int64_t>(workers))) / items;
  };
  constexpr double kBarrier = 6000;  // a pack and two barriers of a shared pair
  if (t.split == AttentionSplit::kHeads) return kv_pairs * busiest(kv_pairs) * (group * head + pack);
  const double tiles = group * static_cast<double>(ceil_div(p.seq, t.tile_q));
  return kv_pairs * (group * head * busiest(tiles) + pack / threads + kBarrier);
}

class CpuAttentionFamily final : public AttentionTacticFamily {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu_attention"; }
  [[nodiscard]] std::size_t size() const override { return attention_cpu_tactics().size(); }
  [[nodiscard]] std::string to_string(std::size_t index) const override {
    return pinch::to_string(attention_cpu_tactics()[index]);
  }
  [[nodiscard]] Knobs knobs(std::size_t index) const override {
    const AttentionCpuTactic& t = attention_cpu_tactics()[index];
    return {{"isa", std::string(pinch::to_string(t.isa))},
            {"tile_q", std::int64_t{t.tile_q}},
            {"tile_kv", std::int64_t{t.tile_kv}},
            {"split", std::string(pinch::to_string(t.split))},
            {"exp2", std::string(attention::to_string(t.exp2))},
            {"quant", std::string(attention::to_string(t.quant))}};
  }
  [[nodiscard]] std::optional<std::string> illegal(std::size_t index, const AttentionProblem& problem,
                                                   const Resources& resources) const override {
    return pinch::illegal(attention_cpu_tactics()[index], problem, resources);
  }
  [[nodiscard]] std::span<const std::string_view> models() const override { return kModels; }
  [[nodiscard]] Result<Estimate> estimate(std::string_view model, std::size_t index, const AttentionProblem& problem,
                                          const Resources& resources) const override {
    PINCH_TRY(find_model(*this, model));
    if (resources.threads < 1) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("threads is {}; the cpu_attention family needs at least 1", resources.threads),
                   "threads"};
    }
    const AttentionCpuTactic& t = attention_cpu_tactics()[index];
    const std::int64_t items = problem.batch * problem.heads * ceil_div(problem.seq, t.tile_q);
    return Estimate{cycles(t, problem, resources.threads), "cycles", items, ceil_div(items, resources.threads)};
  }
};

}  // namespace

std::string_view to_string(AttentionSplit split) {
  return split == AttentionSplit::kHeads ? "heads" : "tiles";
}

std::string to_string(const AttentionCpuTactic& t) {
  return fmt::format("{}.{}x{}.{}.{}.{}", to_string(t.isa), t.tile_q, t.tile_kv, to_string(t.split),
                     attention::to_string(t.exp2), attention::to_string(t.quant));
}

std::span<const AttentionCpuTactic> attention_cpu_tactics() {
  static const std::vector<AttentionCpuTactic> all = list_tactics();
  return all;
}

std::optional<std::string> illegal(const AttentionCpuTactic& t, const AttentionProblem& problem,
                                   const Resources& resources) {
  const auto& choice = cpu_choice();
  if (!choice.ok()) return choice.error().message();
  if (!choice->allows(t.isa)) {
    return fmt::format("isa: {} is {}", to_string(t.isa),
                       choice->forced ? "not the one that PINCH_CPU leaves" : "not what this CPU has");
  }
  if (t.quant == Quant::kLog && problem.pv != PvType::kFp4) {
    return fmt::format("quant: log is a form of NVFP4; pv is {}, take linear", to_string(problem.pv));
  }
  if (t.split == AttentionSplit::kTiles && resources.threads == 1)
    return "split: one thread shares with nobody, take heads";
  return std::nullopt;
}

const AttentionTacticFamily& cpu_attention_family() {
  static const CpuAttentionFamily family;
  return family;
}

}  // namespace pinch
