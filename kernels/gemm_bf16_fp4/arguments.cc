#include "kernels/gemm_bf16_fp4/arguments.h"

#include <fmt/core.h>

#include <utility>

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

Result<void> check_layout(const Bf16* a, std::int64_t lda, const void* out, std::int64_t ldo, std::int64_t multiple,
                          std::size_t alignment) {
  for (const auto& [stride, name] : {std::pair{lda, "lda"}, std::pair{ldo, "ldo"}}) {
    if (stride % multiple == 0 && stride <= kMaxRows) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("rows {} elements apart; give a multiple of {} up to {}", stride, multiple, kMaxRows),
                 name};
  }
  for (const auto& [pointer, name] : {std::pair{static_cast<const void*>(a), "a"}, std::pair{out, "out"}}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("not aligned; it must start at a multiple of {} bytes", alignment), name};
  }
  return {};
}

Result<void> check_workspace(std::span<const std::byte> workspace, std::size_t bytes, std::size_t alignment) {
  if (workspace.size() < bytes) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} bytes; this plan needs {} (workspace_bytes())", workspace.size(), bytes), "workspace"};
  }
  if (bytes > 0 && workspace.data() == nullptr) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("null; give {} bytes (workspace_bytes())", bytes),
                 "workspace"};
  }
  if (reinterpret_cast<std::uintptr_t>(workspace.data()) % alignment != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("not aligned; it must start at a multiple of {} bytes", alignment), "workspace"};
  }
  return {};
}

}  // namespace pinch::detail
