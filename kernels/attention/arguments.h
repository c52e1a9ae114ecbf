// Checks of arguments, and where a sequence's rows lie; front door, backends and reference share both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pinch/attention.h"

namespace pinch::detail {

Result<void> check_inputs(const AttentionProblem& problem, const AttentionInputs& in);
Result<void> check_outputs(const AttentionProblem& problem, const AttentionInputs& in, const AttentionOutputs& out);

/// Both for arrays and offsets in a device's memory, which is not read here, and for copy engines: strides in multiples
/// of `stride_multiple` elements, pointers aligned to `alignment` bytes.
Result<void> check_device_call(const AttentionProblem& problem, const AttentionInputs& in, const AttentionOutputs& out,
                               std::int64_t stride_multiple, std::size_t alignment);

/// One sequence of a batch: its lengths and the first row of each array's.
struct Sequence {
  std::int64_t seq, kv_seq;
  std::int64_t q_row, kv_row;  ///< 0 where lengths are fixed
};
inline Sequence sequence_of(const AttentionProblem& p, const AttentionInputs& in, std::int64_t b) {
  if (in.cu_seqlens_q.empty()) return {p.seq, p.kv_seq, 0, 0};
  const auto at = static_cast<std::size_t>(b);
  const std::int64_t q = in.cu_seqlens_q[at], kv = in.cu_seqlens_kv[at];
  return {in.cu_seqlens_q[at + 1] - q, in.cu_seqlens_kv[at + 1] - kv, q, kv};
}

/// Element offset of a sequence's first row of a head.
template <class T>
std::int64_t offset_of(const AttentionArray<T>& array, bool variable, std::int64_t b, std::int64_t head,
                       std::int64_t first_row) {
  return (variable ? first_row * array.row_stride : b * array.batch_stride) + head * array.head_stride;
}

}  // namespace pinch::detail
