// What the host hands to the wgmma kernel.
#pragma once

#include <cstdint>

#include "kernels/gemm_bf16_fp4/sm90/schedule.h"

namespace pinch::gemm_bf16_fp4::sm90 {

struct WgmmaParams {
  const uint8_t* codes;     // prepared: [row tile, k tile, 2048]
  const uint8_t* scales;    // prepared: [row tile, k tile, scale tile bytes]
  void* out;                // [m, out_stride]; used by FP32 outputs, bf16 goes through the tensor map
  float* partials;          // [workers * cluster_n, tile_n * tile_m] of the shared tiles
  uint32_t* flags;          // [workers * cluster_n, 2], zero between launches
  float alpha;              // with the preparation's power of two folded in
  uint32_t nvfp4_exponent;  // kNvfp4ScaleExponent, kept opaque: see decode_scale
  int m;
  int n;
  int out_stride;
  int row_tiles;  // 64-row tiles of the weights
  int k_tiles;    // 64-column tiles of the weights
  Schedule schedule;
};

}  // namespace pinch::gemm_bf16_fp4::sm90
