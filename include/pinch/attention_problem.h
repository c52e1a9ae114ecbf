// The problem that attention forward solves: shape and types of one call.
#pragma once

#include <cstdint>
#include <string_view>

#include "pinch/formats.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch {

/// In what P and V enter their product.
enum class PvType : std::uint8_t {
  kBf16,
  kFp8,  ///< P * 2^8 and V in E4M3, V with a scale per (batch, kv head)
  kFp4,  ///< NVFP4: E2M1 with an E4M3 scale per 16 keys, V with one FP32 factor per (batch, kv head)
};
constexpr std::string_view to_string(PvType type) {
  return type == PvType::kBf16 ? "bf16" : type == PvType::kFp8 ? "fp8" : "fp4";
}

/// In what Q and K enter theirs.
enum class QkType : std::uint8_t {
  kBf16,
  kFp8,  ///< E4M3 with a scale per (batch, head)
};
constexpr std::string_view to_string(QkType type) {
  return type == QkType::kBf16 ? "bf16" : "fp8";
}

/// O = softmax(scale Q K^T + mask) V for each batch and head; head h reads keys and values of kv head
/// h / (heads / kv_heads).
struct AttentionProblem {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;  ///< divides heads: as many (MHA), fewer (GQA), one (MQA)
  std::int64_t seq = 0;       ///< queries; of variable lengths the largest
  std::int64_t kv_seq = 0;    ///< keys; of variable lengths the largest
  std::int64_t dim = 0;       ///< of a head: 64 or 128
  bool causal = false;        ///< query i sees keys j <= i + kv_seq - seq: the last query sees the last key
  PvType pv = PvType::kBf16;
  QkType qk = QkType::kBf16;
  OutputType output = OutputType::kBf16;

  friend bool operator==(const AttentionProblem&, const AttentionProblem&) = default;
};

/// Keys that query `i` sees, of sequences of these lengths.
PINCH_HD constexpr std::int64_t visible_keys(bool causal, std::int64_t i, std::int64_t seq, std::int64_t kv_seq) {
  if (!causal) return kv_seq;
  const std::int64_t last = i + kv_seq - seq + 1;
  return last < 0 ? 0 : last;
}

/// Whether it can be computed: every size at least 1, kv_heads a divisor of heads, dim 64 or 128, known types, and at
/// most 2^31 - 1 elements in each of Q, K, V and O. Errors: kInvalidArgument, naming the size.
Result<void> validate(const AttentionProblem& problem);

/// Floating-point operations: 2 a multiply-add, of the two products over the pairs of query and key; of a causal
/// problem the visible ones.
double attention_flops(const AttentionProblem& problem);

}  // namespace pinch
