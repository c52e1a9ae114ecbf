// One instantiation: -DPINCH_TILE=index -DPINCH_FORMAT=kNvfp4|kMxfp4 -DPINCH_OUTPUT=kBf16|kF32.
#include "kernels/gemm_bf16_fp4/sm90/instances.h"

#include <type_traits>

#include "kernels/gemm_bf16_fp4/sm90/launch.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

template <int kCoreTile, Format kFormat, OutputType kOutput>
cudaError_t launch_core(const WgmmaTactic& tactic, const WgmmaArgs& args, int sm_count, cudaStream_t stream) {
  using Element = std::conditional_t<kOutput == OutputType::kBf16, __nv_bfloat16, float>;
  return launch<WgmmaTraits<kCoreTiles[kCoreTile], kFormat, Element>>(tactic, args, sm_count, stream);
}

template cudaError_t launch_core<PINCH_TILE, Format::PINCH_FORMAT, OutputType::PINCH_OUTPUT>(const WgmmaTactic&,
                                                                                           const WgmmaArgs&, int,
                                                                                           cudaStream_t);

}  // namespace pinch::gemm_bf16_fp4::sm90
