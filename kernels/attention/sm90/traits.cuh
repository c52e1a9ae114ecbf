// Compile-time shape of one attention kernel.
#pragma once

#include <cstdint>

#include "kernels/attention/sm90/tactic.h"

namespace pinch::attention::sm90 {

template <Kind kKindOf, Tile kTileOf>
struct Traits {
  // A tile that reads ahead is a demonstration: all but its handoff must be legal.
  static constexpr Tile kTile = kTileOf;
  static constexpr Tile without_fault(Tile tile) {
    tile.read_ahead = 0;
    return tile;
  }
  static_assert(illegal(kKindOf, without_fault(kTile)).empty());
  static constexpr Kind kKind = kKindOf;
  static constexpr QkType kQk = kKind.qk;
  static constexpr PvType kPv = kKind.pv;
  static constexpr bool kPromoted = kPv == PvType::kFp8;  // products are summed in FP32 outside the matrix unit

  static constexpr int kDim = kKind.dim;
  static constexpr int kTileQ = kTile.tile_q;
  static constexpr int kTileKv = kTile.tile_kv;
  static constexpr int kStages = kTile.stages;
  static constexpr int kQStages = q_stages(kKind, kTile);
  static constexpr int kConsumers = consumers(kTile);      // warpgroups
  static constexpr int kThreads = 128 * (kConsumers + 1);  // warpgroup 0 is the producer

  // Shared memory is in slabs of 128-byte rows, as the 128-byte swizzle wants it; a step of the matrix unit is 32
  // bytes.
  static constexpr int kQkSlabs = qk_row_bytes(kKind) / 128;
  static constexpr int kQkSteps = kQkSlabs * 4;
  static constexpr int kVSlabs = kPv == PvType::kFp8 ? kTileKv / 128 : kDim / 64;  // of V: keys; else of dim
  static constexpr int kVRows = kPv == PvType::kFp8 ? kDim : kTileKv;              // a slab

  static constexpr int kCodeBytes = kTileKv * kDim / 2;  // of a tile of NVFP4 values
  static constexpr int kCodeScaleBytes = kTileKv * kDim / kGroup;

  static constexpr Handoff kHandoff = handoff(kTile, kPv);
  static constexpr int kSteps = kHandoff.steps;
  static constexpr int kDecodeWarps = kPv == PvType::kFp4 ? 2 : 0;  // warps 2 and 3
  static constexpr int kStepScores = step_keys(kPv) / 2;            // of a thread, both rows, in one step
  static constexpr int kWritten = kHandoff.written;  // steps that softmax writes before the product is issued
  static constexpr int kRead = kHandoff.read;        // steps of its first part

  // 384 threads start with 168 registers each, 512 with 128. What the producer's warpgroup gives up the others get.
  static constexpr int kConsumerRegisters = kConsumers == 3 ? 152 : kPv == PvType::kFp4 ? 224 : 232;
  static constexpr int kProducerRegisters = kConsumers == 3 ? 56 : kPv == PvType::kFp4 ? 56 : 40;
};

}  // namespace pinch::attention::sm90
