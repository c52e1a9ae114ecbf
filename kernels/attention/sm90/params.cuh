// What the host hands to the attention kernel, and where one query tile lies.
#pragma once

#include <cstdint>

#include "kernels/attention/sm90/plan.h"

namespace pinch::attention::sm90 {

struct Params {
  void* o;
  int64_t o_batch_stride, o_head_stride, o_row_stride;  // elements
  float* lse;                                           // or null
  int64_t lse_batch_stride, lse_head_stride;
  const int32_t* cu_seqlens_q;  // or null
  const int32_t* cu_seqlens_kv;
  const float* amax;                   // prepared: of q [batch, heads], k and v [batch, kv_heads]
  const uint8_t *codes, *code_scales;  // prepared NVFP4 values: [batch, kv_heads, value_tiles] tiles
  int value_tiles;
  uint32_t* counters;  // next tile, CTAs that are done; zero between launches
  float scale_log2;    // of the scores, times log2(e)
  float threshold;
  int seq, kv_seq, heads, kv_heads;
  int batch;
  bool causal, output_f32, dynamic;
  bool output_wide;  // bf16, its rows aligned to 16 bytes
  Walk walk;
};

// One query tile of one head.
struct Block {
  int batch, head, kv_head;
  int pair, kv_pair;  // of (batch, head) and (batch, kv head)
  int first_query;    // of the sequence
  int seq, kv_seq;    // of the sequence
  int q_row, kv_row;  // of the sequence's first, among all rows
  int key_tiles;      // that its last query sees

  // Keys that a query of the sequence sees; 0 and below: none.
  __device__ __forceinline__ int visible(const Params& params, int query) const {
    return params.causal ? min(query + kv_seq - seq + 1, kv_seq) : kv_seq;
  }
};

// False for a tile past the sequence's end.
template <typename T>
__device__ __forceinline__ bool locate(const Params& params, int index, Block& block) {
  const Walk::Place place = params.walk.place(index);
  block.batch = place.head / params.heads;
  block.head = place.head - block.batch * params.heads;
  block.kv_head = block.head / (params.heads / params.kv_heads);
  block.pair = place.head;
  block.kv_pair = block.batch * params.kv_heads + block.kv_head;
  block.first_query = place.q_tile * T::kTileQ;
  block.seq = params.seq;
  block.kv_seq = params.kv_seq;
  block.q_row = block.kv_row = 0;
  if (params.cu_seqlens_q != nullptr) {
    block.q_row = params.cu_seqlens_q[block.batch];
    block.kv_row = params.cu_seqlens_kv[block.batch];
    block.seq = params.cu_seqlens_q[block.batch + 1] - block.q_row;
    block.kv_seq = params.cu_seqlens_kv[block.batch + 1] - block.kv_row;
  }
  if (block.first_query >= block.seq) return false;
  const int last = block.visible(params, min(block.first_query + T::kTileQ, block.seq) - 1);
  block.key_tiles = (max(last, 0) + T::kTileKv - 1) / T::kTileKv;
  return true;
}

}  // namespace pinch::attention::sm90
