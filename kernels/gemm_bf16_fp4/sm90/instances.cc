#include "kernels/gemm_bf16_fp4/sm90/instances.h"

namespace pinch::gemm_bf16_fp4::sm90 {

namespace {

template <Format kFormat, OutputType kOutput, WgmmaTile kTile>
constexpr WgmmaKernel wgmma_kernel_of() {
  return {kTile, kFormat, kOutput, &launch_wgmma<kTile, kFormat, kOutput>};
}

template <Format kFormat, StreamInstance kInstance>
constexpr StreamKernel stream_kernel_of() {
  return {kInstance, kFormat, &launch_stream<kInstance, kFormat>};
}

// The lists with what PINCH_TACTICS leaves out removed, written at configure time.
constexpr WgmmaKernel kWgmmaKernels[] = {
#define PINCH_WGMMA_TILE(set, ...)                                                  \
  wgmma_kernel_of<Format::kNvfp4, OutputType::kBf16, WgmmaTile{__VA_ARGS__}>(),     \
      wgmma_kernel_of<Format::kNvfp4, OutputType::kF32, WgmmaTile{__VA_ARGS__}>(),  \
      wgmma_kernel_of<Format::kMxfp4, OutputType::kBf16, WgmmaTile{__VA_ARGS__}>(), \
      wgmma_kernel_of<Format::kMxfp4, OutputType::kF32, WgmmaTile{__VA_ARGS__}>(),
#include "kernels/gemm_bf16_fp4/sm90/built_wgmma_tiles.inc"
#undef PINCH_WGMMA_TILE
};

constexpr StreamKernel kStreamKernels[] = {
#define PINCH_STREAM_INSTANCE(set, ...)                            \
  stream_kernel_of<Format::kNvfp4, StreamInstance{__VA_ARGS__}>(), \
      stream_kernel_of<Format::kMxfp4, StreamInstance{__VA_ARGS__}>(),
#include "kernels/gemm_bf16_fp4/sm90/built_stream_instances.inc"
#undef PINCH_STREAM_INSTANCE
};

}  // namespace

std::span<const WgmmaKernel> wgmma_kernels() {
  return kWgmmaKernels;
}
std::span<const StreamKernel> stream_kernels() {
  return kStreamKernels;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
