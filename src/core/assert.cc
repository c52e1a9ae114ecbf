#include "pinch/assert.h"

#include <cstdio>
#include <cstdlib>

namespace pinch::detail {

void assertion_failed(const char* condition, const char* explanation, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: assertion failed: %s: %s\n", file, line, condition, explanation);
  std::abort();
}

}  // namespace pinch::detail
