// The kernels that this build holds. PINCH_TACTICS=core compiles a subset for development, full all of them.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "kernels/gemm_bf16_fp4/sm90/plan.h"
#include "kernels/gemm_bf16_fp4/sm90/prepared.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/tactic.h"
#include "kernels/gemm_bf16_fp4/sm90/tactic.h"

namespace pinch::gemm_bf16_fp4::sm90 {

struct StreamArgs;    // stream/traits.cuh
struct StreamDevice;  // stream/plan.h

enum class OutputType { kBf16, kF32 };

// Defined in instance.cuh, instantiated one an object file.
template <WgmmaTile kTile, Format kFormat, OutputType kOutput>
cudaError_t launch_wgmma(const WgmmaTactic&, const WgmmaArgs&, const WgmmaDevice&, cudaStream_t);
template <StreamInstance kInstance, Format kFormat>
cudaError_t launch_stream(const StreamTactic&, const StreamArgs&, const StreamDevice&, cudaStream_t);

struct WgmmaKernel {
  WgmmaTile tile;
  Format format;
  OutputType output;
  cudaError_t (*launch)(const WgmmaTactic&, const WgmmaArgs&, const WgmmaDevice&, cudaStream_t);
};

struct StreamKernel {  // writes either output type
  StreamInstance instance;
  Format format;
  cudaError_t (*launch)(const StreamTactic&, const StreamArgs&, const StreamDevice&, cudaStream_t);
};

// In the order of the lists.
std::span<const WgmmaKernel> wgmma_kernels();
std::span<const StreamKernel> stream_kernels();

}  // namespace pinch::gemm_bf16_fp4::sm90
