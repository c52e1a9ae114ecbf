// Instantiates the core tiles; PINCH_WGMMA_PART selects format and output, so that parts compile apart.
#include "kernels/gemm_bf16_fp4/sm90/instances.h"

#include "kernels/gemm_bf16_fp4/sm90/launch.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

namespace {

template <Format kFormat, typename Output>
WgmmaLaunch launch_of(int core_tile) {
  static constexpr WgmmaLaunch kTable[] = {
#define PINCH_WGMMA_TILE(n, m, k, s, w, c) \
  &launch<WgmmaTraits<WgmmaTile{n, m, k, s, w, c}, kFormat, Output>>,
#include "kernels/gemm_bf16_fp4/sm90/core_tiles.inc"
#undef PINCH_WGMMA_TILE
  };
  return kTable[core_tile];
}

}  // namespace

#if PINCH_WGMMA_PART == 0
WgmmaLaunch wgmma_launch_nvfp4_bf16(int core_tile) { return launch_of<Format::kNvfp4, __nv_bfloat16>(core_tile); }
#elif PINCH_WGMMA_PART == 1
WgmmaLaunch wgmma_launch_mxfp4_bf16(int core_tile) { return launch_of<Format::kMxfp4, __nv_bfloat16>(core_tile); }
#elif PINCH_WGMMA_PART == 2
WgmmaLaunch wgmma_launch_nvfp4_f32(int core_tile) { return launch_of<Format::kNvfp4, float>(core_tile); }
#elif PINCH_WGMMA_PART == 3
WgmmaLaunch wgmma_launch_mxfp4_f32(int core_tile) { return launch_of<Format::kMxfp4, float>(core_tile); }
#endif

}  // namespace pinch::gemm_bf16_fp4::sm90
