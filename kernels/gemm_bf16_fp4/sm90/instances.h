// The compiled wgmma kernels: which tiles, and their launch functions by format and output type.
#pragma once

#include <cuda_runtime.h>

#include "kernels/gemm_bf16_fp4/sm90/prepared.h"
#include "kernels/gemm_bf16_fp4/sm90/tactic.h"

namespace pinch::gemm_bf16_fp4::sm90 {

struct WgmmaArgs;

enum class OutputType { kBf16, kF32 };

using WgmmaLaunch = cudaError_t (*)(const WgmmaTactic&, const WgmmaArgs&, int sm_count, cudaStream_t);

// The development subset: covers m = 16 to 2048.
inline constexpr WgmmaTile kCoreTiles[] = {
#define PINCH_WGMMA_TILE(i, n, m, k, s, w, cn, ck, g) {n, m, k, s, w, cn, ck, g},
#include "kernels/gemm_bf16_fp4/sm90/core_tiles.inc"
#undef PINCH_WGMMA_TILE
};
inline constexpr int kCoreTileCount = sizeof(kCoreTiles) / sizeof(kCoreTiles[0]);

// Defined in instances.cu, one instantiation an object file.
template <int kCoreTile, Format kFormat, OutputType kOutput>
cudaError_t launch_core(const WgmmaTactic&, const WgmmaArgs&, int sm_count, cudaStream_t);

// nullptr if there is no such tile.
WgmmaLaunch wgmma_launch(int core_tile, Format format, OutputType output);

}  // namespace pinch::gemm_bf16_fp4::sm90
