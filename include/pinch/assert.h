// PINCH_ASSERT: a condition that only a bug of Pinch, or a broken precondition of a call, can make false.
#pragma once

namespace pinch::detail {

/// Writes "file:line: assertion failed: condition: explanation" to stderr and aborts: going on would give a wrong
/// result with no sign of it. This is the one place where the library prints or ends the process; what a caller, a file
/// or a machine can cause is returned as an Error instead.
[[noreturn]] void assertion_failed(const char* condition, const char* explanation, const char* file, int line) noexcept;

}  // namespace pinch::detail

/// Checked in every build, so keep `condition` cheap and outside inner loops. `explanation` (const char*, evaluated
/// on failure only) says what was relied on.
#define PINCH_ASSERT(condition, explanation)           \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::pinch::detail::assertion_failed(#condition, explanation, __FILE_NAME__, __LINE__))
