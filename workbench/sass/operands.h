// What an instruction reads and writes, from the text of its operands.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "workbench/sass/program.h"

namespace pinch::sass {

/// Without the blanks and line ends around it.
std::string_view trim(std::string_view s);

enum class RegisterFile : std::uint8_t { kGeneral, kUniform, kPredicate, kUniformPredicate };

/// `count` consecutive registers. RZ, PT and their uniform kin are never listed.
struct RegisterRange {
  RegisterFile file = RegisterFile::kGeneral;
  std::uint8_t first = 0;
  std::uint8_t count = 1;
  bool in_address = false;  ///< inside [...]
};

/// A short list without allocation.
class RegisterList {
 public:
  void add(RegisterRange range) {
    if (size_ < ranges_.size()) ranges_[size_++] = range;
  }
  [[nodiscard]] const RegisterRange* begin() const { return ranges_.data(); }
  [[nodiscard]] const RegisterRange* end() const { return ranges_.data() + size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

 private:
  std::array<RegisterRange, 10> ranges_{};
  std::uint8_t size_ = 0;
};

struct Access {
  RegisterList reads, writes;
};

/// What the mnemonic alone says of the operands: the same for every instruction that has it.
struct OperandShape {
  bool has_result = false, two_predicates = false, carries = false, only_predicates = false, addresses_first = false;
  std::uint8_t result_width = 1;                          ///< registers
  std::array<std::uint8_t, 4> source_widths{1, 1, 1, 1};  ///< of sources outside addresses; the last of all behind it
};
[[nodiscard]] OperandShape shape_of(const Instruction& instruction);

/// Registers of `instruction`; both lists are empty where the operands are not known. Widths follow the mnemonic
/// (.64, .128, matrix shapes); a rule that is missing makes a range too short, never too long.
[[nodiscard]] Access registers_of(const Instruction& instruction, const OperandShape& shape);

/// The operand at `index` (0 the first), split at commas outside brackets; empty past the last.
[[nodiscard]] std::string_view operand(const Instruction& instruction, int index);

}  // namespace pinch::sass
