// The control field of a 128-bit SASS word: what ptxas tells the scheduler.
#pragma once

#include <cstdint>
#include <string>

namespace pinch::sass {

inline constexpr int kScoreboards = 6;
inline constexpr std::uint8_t kNoBarrier = 7;

struct Control {
  std::uint8_t stall = 0;                   ///< cycles until this warp may issue again; 0 drains the pipeline first
  bool keeps_warp = false;                  ///< bit 4: 1 the scheduler may stay on this warp, 0 end of a group ("Y")
  std::uint8_t write_barrier = kNoBarrier;  ///< scoreboard released when the result is written
  std::uint8_t read_barrier = kNoBarrier;   ///< scoreboard released when the operands are read
  std::uint8_t wait_mask = 0;               ///< scoreboards that must be free before issue
  std::uint8_t reuse = 0;                   ///< operand slots kept in the reuse cache

  friend bool operator==(const Control&, const Control&) = default;
};

/// The control field of the high half of an instruction word (bits 41 to 61).
[[nodiscard]] constexpr Control decode_control(std::uint64_t high) {
  const std::uint32_t field = static_cast<std::uint32_t>(high >> 41) & 0x1fffff;
  return {.stall = static_cast<std::uint8_t>(field & 15),
          .keeps_warp = (field >> 4 & 1) != 0,
          .write_barrier = static_cast<std::uint8_t>(field >> 5 & 7),
          .read_barrier = static_cast<std::uint8_t>(field >> 8 & 7),
          .wait_mask = static_cast<std::uint8_t>(field >> 11 & 63),
          .reuse = static_cast<std::uint8_t>(field >> 17 & 15)};
}

/// "[B0-2---:R-:W1:Y:S04]", the form that CuAssembler made usual: waits, read barrier, write barrier, yield, stall.
[[nodiscard]] std::string to_string(const Control& control);

}  // namespace pinch::sass
