// Preparing weights on the device. No allocation, no synchronisation.
#pragma once

#include <cuda_runtime.h>

#include "kernels/gemm_bf16_fp4/sm90/prepare.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// Enqueues preparation; every pointer is the device's. When the work is done, `report` says through prepare_status()
/// whether the weights were accepted, and through acc_exponent() what goes with them. Refused weights leave the outputs
/// written but meaningless.
cudaError_t prepare_weights_device(const CanonicalWeights& w, std::uint8_t* codes, std::uint8_t* scales,
                                   PrepareReport* report, cudaStream_t stream);

}  // namespace pinch::gemm_bf16_fp4::sm90
