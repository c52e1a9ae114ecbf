#include "workbench/sass/wgmma.h"

#include <algorithm>
#include <charconv>

#include "workbench/sass/bytes.h"

namespace pinch::sass {

bool closes_group(const Instruction& product) {
  if (!product.operands.empty()) return contains(product.operands, "gsb");
  constexpr unsigned kNoGroup = 7;
  return (product.high >> 20 & 7) != kNoGroup;
}

int groups_left(const Instruction& instruction) {
  if (!instruction.is("WARPGROUP.DEPBAR")) return -1;
  if (instruction.operands.empty()) return static_cast<int>(instruction.high >> 8 & kMostGroupsLeft);
  int left = 0;
  const auto at = instruction.operands.rfind("0x");
  if (at != std::string_view::npos) {
    std::from_chars(instruction.operands.data() + at + 2, instruction.operands.data() + instruction.operands.size(),
                    left, 16);
  }
  return std::clamp(left, 0, kMostGroupsLeft);
}

}  // namespace pinch::sass
