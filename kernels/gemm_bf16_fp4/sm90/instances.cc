#include "kernels/gemm_bf16_fp4/sm90/instances.h"

namespace pinch::gemm_bf16_fp4::sm90 {

WgmmaLaunch wgmma_launch_nvfp4_bf16(int core_tile);
WgmmaLaunch wgmma_launch_mxfp4_bf16(int core_tile);
WgmmaLaunch wgmma_launch_nvfp4_f32(int core_tile);
WgmmaLaunch wgmma_launch_mxfp4_f32(int core_tile);

WgmmaLaunch wgmma_launch(int core_tile, Format format, OutputType output) {
  if (core_tile < 0 || core_tile >= kCoreTileCount) return nullptr;
  if (format == Format::kNvfp4)
    return output == OutputType::kBf16 ? wgmma_launch_nvfp4_bf16(core_tile) : wgmma_launch_nvfp4_f32(core_tile);
  return output == OutputType::kBf16 ? wgmma_launch_mxfp4_bf16(core_tile) : wgmma_launch_mxfp4_f32(core_tile);
}

}  // namespace pinch::gemm_bf16_fp4::sm90
