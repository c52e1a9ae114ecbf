// PTX, read as far as the lints need it: functions, their instructions, and which of these lie in a loop.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pinch::sass {

struct PtxInstruction {
  std::string_view opcode;                 ///< "mul.rn.f32"
  std::vector<std::string_view> operands;  ///< as written, trimmed
  std::uint32_t line = 0;
  int loop = -1;  ///< innermost, by line: a number that is the same for one loop; -1 outside
  bool guarded = false;
  int target = -1;  ///< of a bra: the index of the instruction behind its label; -1 where that is not known

  [[nodiscard]] bool is(std::string_view name) const {
    return opcode.substr(0, name.size()) == name && (opcode.size() == name.size() || opcode[name.size()] == '.');
  }
  [[nodiscard]] bool has(std::string_view modifier) const;
};

struct PtxFunction {
  std::string name;
  std::vector<PtxInstruction> instructions;

  [[nodiscard]] bool uses(std::string_view opcode) const { return line_of(opcode) != 0; }
  /// Line of the first instruction with this opcode; 0 where there is none.
  [[nodiscard]] std::uint32_t line_of(std::string_view opcode) const;
};

[[nodiscard]] bool looks_like_ptx(std::string_view text);
/// "sm_90a" of ".target sm_90a, debug"; empty where there is none.
[[nodiscard]] std::string ptx_target(std::string_view text);
/// Functions with a body. The views point into `text`. What is not understood is passed over.
[[nodiscard]] std::vector<PtxFunction> read_ptx(std::string_view text);

}  // namespace pinch::sass
