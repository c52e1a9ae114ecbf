// The `cpu_attention` family: how the CPU kernels may compute one problem.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/attention/numerics.h"
#include "pinch/attention_problem.h"
#include "pinch/machine.h"
#include "pinch/tactics.h"

namespace pinch {

/// What the workers share.
enum class AttentionSplit : std::uint8_t {
  kHeads,  ///< each takes whole (batch, kv head) pairs, with keys and values of its own in its second-level cache
  kTiles,  ///< all work on one pair at a time, each on other query tiles
};
std::string_view to_string(AttentionSplit split);

struct AttentionCpuTactic {
  CpuIsa isa = CpuIsa::kScalar;
  int tile_q = 32;   ///< queries of one head at a time
  int tile_kv = 64;  ///< keys between two updates of the running maximum
  AttentionSplit split = AttentionSplit::kHeads;
  attention::Exp2 exp2 = attention::Exp2::kPoly4;
  attention::Quant quant = attention::Quant::kLinear;  ///< of pv = fp4

  friend bool operator==(const AttentionCpuTactic&, const AttentionCpuTactic&) = default;
};

/// "avx512_bf16.96x128.heads.poly4.linear".
std::string to_string(const AttentionCpuTactic& tactic);

/// Every tactic of the family, in its fixed order; an index of cpu_attention_family() is an index of this.
std::span<const AttentionCpuTactic> attention_cpu_tactics();

/// The reason, by name, why a tactic is refused: "axis: reason". Nothing where it is legal.
std::optional<std::string> illegal(const AttentionCpuTactic& tactic, const AttentionProblem& problem,
                                   const Resources& resources);

/// The same tactics behind the family interface.
const AttentionTacticFamily& cpu_attention_family();

}  // namespace pinch
