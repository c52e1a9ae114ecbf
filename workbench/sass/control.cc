#include "workbench/sass/control.h"

#include <fmt/core.h>

namespace pinch::sass {

std::string to_string(const Control& control) {
  std::string waits(kScoreboards, '-');
  for (int i = 0; i < kScoreboards; ++i) {
    if (control.wait_mask >> i & 1) waits[i] = static_cast<char>('0' + i);
  }
  const auto barrier = [](std::uint8_t b) { return b == kNoBarrier ? '-' : static_cast<char>('0' + b); };
  return fmt::format("[B{}:R{}:W{}:{}:S{:02}]", waits, barrier(control.read_barrier), barrier(control.write_barrier),
                     control.keeps_warp ? '-' : 'Y', control.stall);
}

}  // namespace pinch::sass
