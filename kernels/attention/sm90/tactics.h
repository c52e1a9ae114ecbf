// The list of attention tactics for Hopper, and which kernels each needs. No CUDA header, so that it is the same in a
// build without kernels.
#pragma once

#include <span>
#include <string_view>

#include "kernels/attention/sm90/plan.h"
#include "kernels/attention/sm90/tactic.h"

namespace pinch::attention::sm90 {

/// A row of tiles.inc.
struct ListedTile {
  bool core;  ///< built by PINCH_TACTICS=core too
  Kind kind;
  Tile tile;
};
std::span<const ListedTile> listed_tiles();

/// Every tile once, whatever kinds it is compiled for, with every setting of the launch knobs; the order is the
/// family's.
std::span<const Tactic> tactics();

/// Why a tactic cannot run a problem, its kind's kernel missing from tiles.inc included; empty if it can.
std::string_view illegal_listed(const Tactic& tactic, const AttentionProblem& problem, const DeviceFacts& device);

}  // namespace pinch::attention::sm90
