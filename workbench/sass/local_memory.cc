#include "workbench/sass/local_memory.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace pinch::sass {
namespace {

constexpr unsigned kStackPointer = 1;  // R1

// "[R1+0x40]" of an access; without text, the register field of the word.
std::string_view address_of(const Instruction& i) {
  const auto open = i.operands.find('[');
  if (open == std::string_view::npos) return {};
  const auto close = i.operands.find(']', open);
  return close == std::string_view::npos ? std::string_view{} : i.operands.substr(open + 1, close - open - 1);
}

bool by_stack_pointer(const Instruction& i) {
  const std::string_view address = address_of(i);
  if (!address.empty())
    return address == "R1" || (address.substr(0, 3) == "R1+" && address.find("UR") == std::string_view::npos);
  return i.has_word && (i.low >> 24 & 0xff) == kStackPointer;
}

}  // namespace

LocalMemory local_memory(const Kernel& kernel, const Flow& flow) {
  LocalMemory found;
  bool marked = false, computed = false;
  std::set<std::string_view> left_for_good;
  for (std::size_t i = 0; i < kernel.instructions.size(); ++i) {
    const Instruction& instruction = kernel.instructions[i];
    const bool is_store = instruction.is("STL");
    if (!is_store && !instruction.is("LDL")) continue;
    found.accesses.push_back({static_cast<int>(i), is_store, false, -1});
    marked |= instruction.marked_spill;
    computed |= !by_stack_pointer(instruction);
    if (instruction.has_modifier("LU")) left_for_good.insert(address_of(instruction));
  }
  for (LocalAccess& access : found.accesses) {
    const Instruction& instruction = kernel.instructions[static_cast<std::size_t>(access.instruction)];
    const bool constant = by_stack_pointer(instruction);
    access.is_spill =
        marked ? instruction.marked_spill : constant && (!computed || left_for_good.count(address_of(instruction)) > 0);
    access.loop = flow.blocks[static_cast<std::size_t>(flow.block_of(access.instruction))].loop;
    ++(access.is_spill ? (access.is_store ? found.spill_stores : found.spill_loads)
                       : (access.is_store ? found.array_stores : found.array_loads));
  }
  return found;
}

}  // namespace pinch::sass
