// The cost model of the `sm90_attention` family: what a tactic takes without running it. docs/design/tactics.md
// explains the terms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/sm90/tactics.h"
#include "pinch/machine_model.h"
#include "pinch/result.h"

namespace pinch::attention::sm90 {

/// What the model must know of a machine, read from a MachineModel by the names of constant_names().
struct ModelConstants {
  enum Shared : std::size_t {
    kClock,          ///< of the multiprocessors while they multiply
    kLaunch,         ///< before the first tile and after the last
    kTile,           ///< starting and ending a query tile
    kMma,            ///< part of the matrix units' rate that a stream of tiles reaches
    kOverlap,        ///< what of the shorter of products and softmax the longer does not hide
    kExp2,           ///< exponentials a cycle and multiprocessor
    kElementBf16,    ///< instructions of softmax a score, without the exponential
    kElementFp8,     ///< the same to E4M3
    kElementFp4,     ///< to NVFP4, linear
    kElementFp4Log,  ///< in the log domain
    kRescale,        ///< part of rescaling the sums that nothing hides
    kPrepare,        ///< launching what quantises V, Q and K
    kPrepareRate,    ///< bytes that it reads and writes
    kSharedCount
  };
  std::array<double, kSharedCount> shared{};
  std::vector<double> kernels;  ///< of each of listed_tiles(): its time a step, measured / by the shared constants

  /// Errors: kNotFound, kCorrupt, naming a shared constant. A kernel newer than the record has 1.
  static Result<ModelConstants> from(const MachineModel& machine);
};

/// Names and units: the shared constants in their order, then one a row of listed_tiles(), a ratio.
struct ConstantName {
  std::string name;
  std::string_view unit;
};
std::span<const ConstantName> constant_names();

/// Of an H200 (data/machines/h200-attention.json).
const ModelConstants& h200_constants();

/// What a legal tactic launches.
struct Cost {
  double ns;
  std::int64_t ctas;   ///< query tiles
  std::int64_t waves;  ///< of them, over the multiprocessors
};
Cost cost(const Tactic& tactic, const AttentionProblem& problem, const DeviceFacts& device,
          const ModelConstants& constants);

}  // namespace pinch::attention::sm90
