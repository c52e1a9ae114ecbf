// Operands of a GEMM on a device: random activations, and weights dequantised exactly, from the canonical layout and by
// the functions of pinch/formats.h, so that what is checked with them shares nothing with the kernels' own decoding.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/cuda/runtime.h"
#include "pinch/formats.h"
#include "pinch/fp4.h"

namespace pinch::cuda {

/// Standard normal values, each a function of its place and the seed; never zeros, which some machines multiply faster.
Result<void> enqueue_random_bf16(Bf16* values, std::int64_t count, std::uint64_t seed, cudaStream_t stream);

/// dense[n, k] = code * scale, without alpha. The view's pointers are the device's.
Result<void> enqueue_dequantise(const Fp4View& weights, Bf16* dense, cudaStream_t stream);

}  // namespace pinch::cuda
