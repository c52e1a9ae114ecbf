// The cost model of the `sm90_attention` family: what a tactic takes without running it. docs/design/tactics.md
// explains the terms.
#pragma once

#include <cstdint>

#include "kernels/attention/sm90/plan.h"
#include "pinch/machine_model.h"
#include "pinch/result.h"

namespace pinch::attention::sm90 {

/// What the model must know of a machine, read by these names from a MachineModel.
struct ModelConstants {
  double clock_ghz;     ///< "attention.clock", of the multiprocessors while they multiply
  double launch_ns;     ///< "attention.launch", before the first tile and after the last
  double tile_ns;       ///< "attention.tile": starting and ending a query tile
  double mma;           ///< "attention.mma": of the matrix units' rate that a stream of tiles reaches
  double overlap;       ///< "attention.overlap": what of the shorter of products and softmax the longer does not hide
  double exp2_lanes;    ///< "attention.exp2": exponentials a cycle and multiprocessor
  double element_bf16;  ///< "attention.element_bf16": instructions of softmax a score, without exponential
  double element_fp8;   ///< "attention.element_fp8": the same to E4M3
  double element_fp4;   ///< "attention.element_fp4": to NVFP4, linear
  double element_fp4_log;  ///< "attention.element_fp4_log"
  double prepare_ns;       ///< "attention.prepare": launching what quantises V, Q and K
  double prepare_gbps;     ///< "attention.prepare_rate": bytes it reads and writes

  /// Errors: kNotFound, kCorrupt, naming a constant.
  static Result<ModelConstants> from(const MachineModel& machine);
};

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
