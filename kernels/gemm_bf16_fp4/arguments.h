// Checks of arguments that the front door and the reference share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pinch/formats.h"
#include "pinch/result.h"

namespace pinch::detail {

/// Largest m: with kMaxFp4Dimension for n and k, no count of bytes overflows.
inline constexpr std::int64_t kMaxRows = 0x7fffffff;

Result<void> check_rows(std::int64_t m);

/// Null pointers, and rows that would overlap.
Result<void> check_operands(const Bf16* a, std::int64_t lda, std::int64_t k, const void* out, std::int64_t ldo,
                            std::int64_t n);

/// Strides in multiples of `multiple` elements, at most 2^31 - 1, and pointers aligned to `alignment` bytes: what copy
/// engines need.
Result<void> check_layout(const Bf16* a, std::int64_t lda, const void* out, std::int64_t ldo, std::int64_t multiple,
                          std::size_t alignment);

/// A workspace of at least `bytes`, aligned; null where no bytes are needed.
Result<void> check_workspace(std::span<const std::byte> workspace, std::size_t bytes, std::size_t alignment);

}  // namespace pinch::detail
