// What a kernel of the checker needs to know of one attention problem on the device.
#pragma once

#include <cstdint>

#include "pinch/attention_problem.h"
#include "pinch/formats.h"

namespace pinch::gpu_test {

struct AttentionView {
  const std::uint16_t *q, *k, *v;
  std::int64_t q_batch, q_head, q_row, kv_batch, kv_head, kv_row;
  const std::int32_t *cu_q, *cu_kv;
  int batch, heads, kv_heads, seq, kv_seq, dim;
  bool causal;
  PvType pv;
  QkType qk;
  float scale;

  struct Row {
    const std::uint16_t *q, *k, *v;  // k and v: of the sequence's first key
    int seq, kv_seq, visible;        // seq: 0 where the query is past the end
  };
  __device__ Row row(int b, int h, int query) const {
    Row r{};
    const int kv_of = h / (heads / kv_heads);
    int q_first = 0, kv_first = 0;
    r.seq = seq, r.kv_seq = kv_seq;
    if (cu_q != nullptr) {
      q_first = cu_q[b], kv_first = cu_kv[b];
      r.seq = cu_q[b + 1] - q_first, r.kv_seq = cu_kv[b + 1] - kv_first;
    }
    const int at = cu_q != nullptr ? 0 : b;
    r.q = q + at * q_batch + h * q_head + (q_first + query) * q_row;
    r.k = k + at * kv_batch + kv_of * kv_head + kv_first * kv_row;
    r.v = v + at * kv_batch + kv_of * kv_head + kv_first * kv_row;
    r.visible = causal ? max(0, min(query + r.kv_seq - r.seq + 1, r.kv_seq)) : r.kv_seq;
    if (query >= r.seq) r.seq = 0;
    return r;
  }
};

__device__ inline float value(const std::uint16_t* at) {
  return to_f32(Bf16{*at});
}

}  // namespace pinch::gpu_test
