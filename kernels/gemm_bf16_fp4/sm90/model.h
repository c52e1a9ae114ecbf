// Cost models of the `sm90` family: what a tactic takes without running it.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "kernels/gemm_bf16_fp4/sm90/tactics.h"
#include "pinch/tactics.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// What a launch is to the models that count: tiles, waves and traffic, not time.
struct Grid {
  double tile_n = 0, tile_m = 0;  ///< of a CTA: channels, rows
  double k_parts = 1;             ///< CTAs that share a tile's k
  std::int64_t ctas = 0;
  std::int64_t slots = 0;  ///< CTAs that run at once
  int ctas_per_sm = 1;
  bool even = false;  ///< work is cut evenly over all CTAs, so that no wave has a tail
  [[nodiscard]] double waves() const;
};

/// Of a legal tactic.
Grid grid_of(const Tactic& tactic, const WgmmaProblem& problem, const Device& device);

/// Names of the models, the default first.
std::span<const std::string_view> models();

/// Cost of tactics()[index], which is legal, under one of models().
Estimate estimate(std::size_t model, std::size_t index, const WgmmaProblem& problem, Fp4Format format,
                  OutputType output, const Device& device);

}  // namespace pinch::gemm_bf16_fp4::sm90
