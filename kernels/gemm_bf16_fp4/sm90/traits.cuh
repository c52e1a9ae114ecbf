// Compile-time shape of one wgmma kernel.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/gemm_bf16_fp4/sm90/decode.cuh"
#include "kernels/gemm_bf16_fp4/sm90/tactic.h"

namespace pinch::gemm_bf16_fp4::sm90 {

template <WgmmaTile kTileKnobs, Format kWeightFormat, typename OutputType>
struct WgmmaTraits {
  static_assert(illegal(kTileKnobs).empty());
  using Output = OutputType;
  static constexpr WgmmaTile kTile = kTileKnobs;
  static constexpr Format kFormat = kWeightFormat;
  static constexpr bool kStagedOutput = std::is_same_v<Output, __nv_bfloat16>;

  static constexpr int kTileN = kTile.tile_n;
  static constexpr int kTileM = kTile.tile_m;
  static constexpr int kTileK = kTile.tile_k;
  static constexpr int kStages = kTile.stages;
  static constexpr int kCluster = kTile.cluster_n;   // CTAs that share activations
  static constexpr int kClusterK = kTile.cluster_k;  // CTAs that share a tile
  static constexpr int kClusterSize = kCluster * kClusterK;

  static constexpr int kConsumers = kTile.consumers;         // warpgroups
  static constexpr int kThreads = 128 * (kConsumers + 1);    // warpgroup 0 is the producer
  static constexpr int kRowTiles = kTileN / 64;              // 64-row weight tiles a CTA
  static constexpr int kRowBlocks = kRowTiles / kConsumers;  // of them a warpgroup
  static constexpr int kSlabs = kTileK / 64;                 // 64-column slabs a stage
  static constexpr int kSteps = kTileK / 16;                 // k16 steps a stage
  // The last m tile asks for a part of its rows: rows past m, though nothing is read for them, cost the L2 as much as
  // rows do, all of them one slice (H200, m = 257, n = k = 8192: 116 against 45 us).
  static constexpr int kRowsShare = kTileM / kCluster;  // rows of the activation tile that a CTA sends to all
  static constexpr int kPartRows = kRowsShare % 32 == 0   ? kRowsShare / 4
                                   : kRowsShare % 16 == 0 ? kRowsShare / 2
                                                          : kRowsShare;
  static constexpr int kParts = kRowsShare / kPartRows;
  static constexpr int kOwnColumns = own_columns(kTile);        // m columns that this CTA finishes
  static constexpr int kStagedColumns = staged_columns(kTile);  // m columns a staged store

  static constexpr int kGroup = kTile.group;  // k16 steps decoded and issued together

  // 384 threads start with 168 registers each, 512 with 128, 640 with 96: 3 x 168 = 504, 4 x 128 = 512 and 5 x 96 = 480
  // to share among the warpgroups.
  static constexpr int kConsumerRegisters = kConsumers == 2 ? 232 : kConsumers == 3 ? 160 : 112;
  static constexpr int kProducerRegisters = kConsumers == 2 ? 40 : 32;  // the producer spills with 24

  static constexpr int kCodeTileBytes = sm90::kCodeTileBytes;
  static constexpr int kScaleTileBytes = scale_tile_bytes(kFormat);
};

}  // namespace pinch::gemm_bf16_fp4::sm90
