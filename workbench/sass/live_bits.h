// Which bits of a register anything reads, and where its value may come from: followed along the branches of a kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workbench/sass/flow.h"
#include "workbench/sass/program.h"

namespace pinch::sass {

inline constexpr std::uint32_t kAllBits = 0xffffffff;

class LiveBits {
 public:
  LiveBits(const Kernel& kernel, const Flow& flow) : kernel_(kernel), flow_(flow) {}

  /// Bits of general register `reg` that may be read between instruction `at`, which leaves them, and the next that
  /// overwrites them. A reader that passes on what it takes (a byte permute, a bitwise operation) takes what is read
  /// of its own result. All bits where that is not known: calls, arithmetic, more steps than a kernel is worth.
  [[nodiscard]] std::uint32_t read_after(int at, std::uint8_t reg) { return read_after(at, reg, 0); }

  /// The instructions whose result `reg` may hold when instruction `at` reads it; none where one of them is not known.
  [[nodiscard]] std::optional<std::vector<int>> definitions(int at, std::uint8_t reg);

 private:
  std::uint32_t read_after(int at, std::uint8_t reg, int depth);
  std::uint32_t read_by(int at, std::uint8_t reg, int depth);

  const Kernel& kernel_;
  const Flow& flow_;
  int steps_left_ = 1 << 20;  // of all questions together
};

/// The constant of "LOP3.LUT R4, R5, 0xff, RZ, 0xc0, !PT", an AND with a constant; none for any other instruction.
[[nodiscard]] std::optional<std::uint32_t> and_mask(const Instruction& instruction);

}  // namespace pinch::sass
