// Checks of arguments that the front door and the reference share.
#pragma once

#include <cstdint>

#include "pinch/formats.h"
#include "pinch/result.h"

namespace pinch::detail {

/// Largest m: with kMaxFp4Dimension for n and k, no count of bytes overflows.
inline constexpr std::int64_t kMaxRows = 0x7fffffff;

Result<void> check_rows(std::int64_t m);

/// Null pointers, and rows that would overlap.
Result<void> check_operands(const Bf16* a, std::int64_t lda, std::int64_t k, const void* out, std::int64_t ldo,
                            std::int64_t n);

}  // namespace pinch::detail
