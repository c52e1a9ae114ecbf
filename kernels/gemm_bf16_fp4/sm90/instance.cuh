// The bodies behind instances.h: included by the generated instances alone, each of which instantiates one of them.
#pragma once

#include <type_traits>

#include "kernels/gemm_bf16_fp4/sm90/instances.h"
#include "kernels/gemm_bf16_fp4/sm90/launch.cuh"
#include "kernels/gemm_bf16_fp4/sm90/stream/launch.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

template <WgmmaTile kTile, Format kFormat, OutputType kOutput>
cudaError_t launch_wgmma(const WgmmaTactic& tactic, const WgmmaArgs& args, const WgmmaDevice& device,
                         cudaStream_t stream) {
  using Element = std::conditional_t<kOutput == OutputType::kBf16, __nv_bfloat16, float>;
  return launch<WgmmaTraits<kTile, kFormat, Element>>(tactic, args, device, stream);
}

template <StreamInstance kInstance, Format kFormat>
cudaError_t launch_stream(const StreamTactic& tactic, const StreamArgs& args, const StreamDevice& device,
                          cudaStream_t stream) {
  return launch<kFormat, kInstance>(tactic, args, device, stream);
}

}  // namespace pinch::gemm_bf16_fp4::sm90
