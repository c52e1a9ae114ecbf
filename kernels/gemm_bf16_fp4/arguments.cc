#include "kernels/gemm_bf16_fp4/arguments.h"

#include <fmt/core.h>

namespace pinch::detail {

Result<void> check_rows(std::int64_t m) {
  if (m >= 1 && m <= kMaxRows) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("{} rows; give 1 to {}", m, kMaxRows), "m"};
}

Result<void> check_operands(const Bf16* a, std::int64_t lda, std::int64_t k, const void* out, std::int64_t ldo,
                            std::int64_t n) {
  if (a == nullptr) return Error{ErrorCode::kInvalidArgument, "null; give [m, k] bf16 activations", "a"};
  if (out == nullptr) return Error{ErrorCode::kInvalidArgument, "null; give room for the [m, n] result", "out"};
  if (lda < k) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("rows {} elements apart overlap: k is {}, give at least that", lda, k), "lda"};
  }
  if (ldo < n) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("rows {} elements apart overlap: n is {}, give at least that", ldo, n), "ldo"};
  }
  return {};
}

}  // namespace pinch::detail
