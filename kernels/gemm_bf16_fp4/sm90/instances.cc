#include "kernels/gemm_bf16_fp4/sm90/instances.h"

#include <array>
#include <utility>

namespace pinch::gemm_bf16_fp4::sm90 {

namespace {

template <Format kFormat, OutputType kOutput, int... kTiles>
WgmmaLaunch pick(int core_tile, std::integer_sequence<int, kTiles...>) {
  static constexpr std::array<WgmmaLaunch, sizeof...(kTiles)> kTable{&launch_core<kTiles, kFormat, kOutput>...};
  return kTable[static_cast<std::size_t>(core_tile)];
}

}  // namespace

WgmmaLaunch wgmma_launch(int core_tile, Format format, OutputType output) {
  if (core_tile < 0 || core_tile >= kCoreTileCount) return nullptr;
  constexpr auto kTiles = std::make_integer_sequence<int, kCoreTileCount>{};
#if defined(PINCH_WGMMA_NVFP4_BF16_ONLY)
  return format == Format::kNvfp4 && output == OutputType::kBf16
             ? pick<Format::kNvfp4, OutputType::kBf16>(core_tile, kTiles)
             : nullptr;
#else
  if (format == Format::kNvfp4)
    return output == OutputType::kBf16 ? pick<Format::kNvfp4, OutputType::kBf16>(core_tile, kTiles)
                                       : pick<Format::kNvfp4, OutputType::kF32>(core_tile, kTiles);
  return output == OutputType::kBf16 ? pick<Format::kMxfp4, OutputType::kBf16>(core_tile, kTiles)
                                     : pick<Format::kMxfp4, OutputType::kF32>(core_tile, kTiles);
#endif
}

}  // namespace pinch::gemm_bf16_fp4::sm90
