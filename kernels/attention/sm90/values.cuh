// V in NVFP4: its order in memory, which prepare() writes, and the warps that decode it into shared memory.
//
// A tile is 128 keys. Its blocks are 16 keys (a group) by 8 columns, block = group * dim / 8 + column / 8. A word holds
// the codes of one key's 8 columns, arranged as the GEMM's prepared weights are (prepared.h). Words lie [quad of
// keys][block] [key of the quad], so that a thread, which has a block, reads 16 bytes at a time next to its
// neighbours'; then the scales, e4m3, [block][column].
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/attention/sm90/barriers.cuh"
#include "kernels/attention/sm90/smem.cuh"
#include "kernels/attention/sm90/traced/names.h"
#include "kernels/common/cuda/ptx/cvt.cuh"
#include "kernels/common/cuda/ptx/fence.cuh"
#include "kernels/common/cuda/ptx/ldst.cuh"
#include "kernels/common/cuda/ptx/mul.cuh"
#include "kernels/common/cuda/ptx/shared_access.cuh"
#include "kernels/gemm_bf16_fp4/sm90/prepared.h"

namespace pinch::attention::sm90 {

/// Word of a tile of 128 keys.
PINCH_HD constexpr int code_word(int dim, int key, int chunk) {
  const int blocks = 8 * dim / 8, block = key / kGroup * (dim / 8) + chunk;
  return (key % kGroup / 4 * blocks + block) * 4 + key % 4;
}

// Decoded codes are worth 2^-126 and scales here 2^118: both exact in bf16, as is their product.
inline constexpr float kDecodedUnit = 0x1p-8F;

/// Two e4m3 scales times 2^118, as bf16.
__device__ __forceinline__ uint32_t decoded_scales(uint16_t scales) {
  const uint32_t halves = ptx::cvt_f16x2_e4m3x2(scales);
  const float2 s = __half22float2(reinterpret_cast<const __half2&>(halves));
  const __nv_bfloat162 pair = __floats2bfloat162_rn(s.x * 0x1p118F, s.y * 0x1p118F);
  return reinterpret_cast<const uint32_t&>(pair);
}

// One tile of values by the decoding warps: `thread` of kDecodeWarps * 32.
template <typename T>
__device__ __forceinline__ void decode_values(uint32_t codes, uint32_t v, int thread) {
  constexpr int kBlocks = T::kTileKv / kGroup * (T::kDim / 8);
#pragma unroll 1
  for (int block = thread; block < kBlocks; block += T::kDecodeWarps * 32) {
    const int group = block / (T::kDim / 8), chunk = block % (T::kDim / 8);
    const uint2 raw = ptx::ld_shared_v2_u32(codes + T::kCodeBytes + block * 8);
    uint32_t scales[4];
    scales[0] = decoded_scales(static_cast<uint16_t>(raw.x));
    scales[1] = decoded_scales(static_cast<uint16_t>(raw.x >> 16));
    scales[2] = decoded_scales(static_cast<uint16_t>(raw.y));
    scales[3] = decoded_scales(static_cast<uint16_t>(raw.y >> 16));
    const uint32_t slab = v + chunk / 8 * (T::kTileKv * 128);
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) {
      const uint4 four = ptx::ld_shared_v4_u32(codes + (quad * kBlocks + block) * 16);
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = group * kGroup + quad * 4 + i;
        const gemm_bf16_fp4::sm90::Fragment f = gemm_bf16_fp4::sm90::decode_word(words[i]);
        ptx::st_shared_v4_u32(slab + key * 128 + ((chunk % 8) ^ (key % 8)) * 16, ptx::mul_bf16x2(f.a[0], scales[0]),
                              ptx::mul_bf16x2(f.a[1], scales[1]), ptx::mul_bf16x2(f.a[2], scales[2]),
                              ptx::mul_bf16x2(f.a[3], scales[3]));
      }
    }
  }
}

// The warps that decode NVFP4 values, tile after tile as the producer brings them.
template <typename T>
__device__ __forceinline__ void decoder(SharedStorage<T>& shared, int thread) {
  PINCH_TRACE_SCOPE();
  auto& barriers = shared.barriers;
  RingPosition<2> codes;
  RingPosition<T::kStages> v;
  for ([[maybe_unused]] int tile = 0;; ++tile) {
    PINCH_TRACE_STEP(TraceRole::kDecoder, tile);
    wait_for_warp_as(TraceWait::kCodes, barriers.codes_full[codes.stage], codes.parity PINCH_TRACE_PASSED);
    if (read_by_first_lane(barriers.codes_end[codes.stage]) != 0) return;
    wait_for_warp_as(TraceWait::kEmpty, barriers.v_empty[v.stage], v.parity ^ 1 PINCH_TRACE_PASSED);
    decode_values<T>(ptx::shared_address(shared.codes[codes.stage]), ptx::shared_address(shared.v[v.stage][0]), thread);
    ptx::fence_proxy_async_shared();
    __syncwarp();
    arrive_warp(barriers.v_full[v.stage]);
    arrive_warp(barriers.codes_empty[codes.stage]);
    v.advance();
    codes.advance();
  }
}

}  // namespace pinch::attention::sm90
