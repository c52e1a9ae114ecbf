#include "workbench/sass/live_bits.h"

#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "workbench/sass/operands.h"

namespace pinch::sass {
namespace {

constexpr int kMostDepth = 4;  // results of results

bool is_always(const Instruction& i) {
  return i.guard == kAlways && !i.guard_negated;
}

bool has_register(const RegisterList& list, std::uint8_t reg) {
  for (const RegisterRange& r : list) {
    if (r.file == RegisterFile::kGeneral && reg >= r.first && reg < r.first + r.count) return true;
  }
  return false;
}

std::optional<std::uint32_t> constant(std::string_view text) {
  if (text.substr(0, 2) != "0x") return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "R4" of "R4.reuse", "~R4" or "-R4".
bool names(std::string_view operand, std::uint8_t reg) {
  while (!operand.empty() && (operand.front() == '~' || operand.front() == '-' || operand.front() == '|'))
    operand.remove_prefix(1);
  if (operand.size() < 2 || operand[0] != 'R') return false;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(operand.data() + 1, operand.data() + operand.size(), number);
  return error == std::errc() && number == reg &&
         (end == operand.data() + operand.size() || *end == '.' || *end == '|');
}

// The general register that an instruction writes alone, where it does.
std::optional<std::uint8_t> only_result(const Access& access) {
  std::optional<std::uint8_t> found;
  for (const RegisterRange& r : access.writes) {
    if (r.file != RegisterFile::kGeneral) continue;
    if (found || r.count != 1) return std::nullopt;
    found = r.first;
  }
  return found;
}

// Bytes of `reg` that a permute takes for those bytes of its result that are read: "PRMT R5, R4, 0x5410, R7".
std::uint32_t permuted(const Instruction& i, std::uint8_t reg, std::uint32_t result) {
  const auto selector = constant(operand(i, 2));
  if (!selector || i.mnemonic != "PRMT") return kAllBits;
  std::uint32_t read = 0;
  for (unsigned byte = 0; byte < 4; ++byte) {
    if ((result >> 8 * byte & 0xff) == 0) continue;
    const unsigned source = *selector >> 4 * byte & 7;
    if (names(operand(i, source < 4 ? 1 : 3), reg)) read |= 0xffu << 8 * (source & 3);
  }
  return read;
}

// Code behind it is not followed.
bool leads_away(const Instruction& i) {
  const std::string_view kind = i.base().substr(0, 2);
  return !i.known() || i.is("CALL") || i.is("RET") || ((kind == "BR" || kind == "JM") && i.target == kNoTarget);
}

std::uint32_t stored(const Instruction& i) {
  return i.has_modifier("U8") || i.has_modifier("S8")     ? 0xff
         : i.has_modifier("U16") || i.has_modifier("S16") ? 0xffff
                                                          : kAllBits;
}

}  // namespace

std::optional<std::uint32_t> and_mask(const Instruction& instruction) {
  constexpr std::string_view kAnd = "0xc0";  // the table of a & b
  if (!instruction.is("LOP3") || operand(instruction, 4) != kAnd || operand(instruction, 3) != "RZ")
    return std::nullopt;
  return constant(operand(instruction, 2));
}

std::uint32_t LiveBits::read_by(int at, std::uint8_t reg, int depth) {
  const Instruction& i = kernel_.instructions[static_cast<std::size_t>(at)];
  const Access access = registers_of(i, shape_of(i));
  if (!has_register(access.reads, reg)) return 0;
  for (const RegisterRange& r : access.reads) {
    if (r.in_address && r.file == RegisterFile::kGeneral && reg >= r.first && reg < r.first + r.count) return kAllBits;
  }
  if (i.is("STG") || i.is("STS") || i.is("STL") || i.is("ST")) return stored(i);
  if (i.is("F2FP") && i.mnemonic.find("MERGE_C") != std::string_view::npos) {
    const bool is_merged_only = names(operand(i, 3), reg) && !names(operand(i, 1), reg) && !names(operand(i, 2), reg);
    return is_merged_only ? 0xffff : kAllBits;
  }
  const bool passes_on = i.is("PRMT") || i.is("LOP3") || i.is("MOV");
  const auto result = only_result(access);
  if (!passes_on || !result || depth >= kMostDepth) return kAllBits;
  // A predicate made of the result beside it would read it whole.
  for (const RegisterRange& r : access.writes) {
    if (r.file != RegisterFile::kGeneral) return kAllBits;
  }
  const std::uint32_t read = read_after(at, *result, depth + 1);
  if (i.is("PRMT")) return permuted(i, reg, read);
  return read & and_mask(i).value_or(kAllBits);
}

std::uint32_t LiveBits::read_after(int at, std::uint8_t reg, int depth) {
  std::uint32_t read = 0;
  std::vector<std::pair<int, int>> work{{flow_.block_of(at), at + 1}};  // block and its first instruction to look at
  std::set<int> seen;
  while (!work.empty()) {
    const auto [block, first] = work.back();
    work.pop_back();
    const Block& b = flow_.blocks[static_cast<std::size_t>(block)];
    if (first == b.first && !seen.insert(block).second) continue;
    bool overwritten = false;
    for (int i = first; i < b.last && !overwritten; ++i) {
      const Instruction& instruction = kernel_.instructions[static_cast<std::size_t>(i)];
      if (--steps_left_ < 0 || leads_away(instruction)) return kAllBits;
      read |= read_by(i, reg, depth);
      if (read == kAllBits) return read;
      overwritten =
          is_always(instruction) && has_register(registers_of(instruction, shape_of(instruction)).writes, reg);
    }
    if (overwritten) continue;
    for (const int to : b.successors) work.emplace_back(to, flow_.blocks[static_cast<std::size_t>(to)].first);
  }
  return read;
}

std::optional<std::vector<int>> LiveBits::definitions(int at, std::uint8_t reg) {
  std::vector<int> found;
  std::vector<std::pair<int, int>> work{{flow_.block_of(at), at}};  // block, and the instruction to look before
  std::set<int> seen;
  while (!work.empty()) {
    const auto [block, end] = work.back();
    work.pop_back();
    const Block& b = flow_.blocks[static_cast<std::size_t>(block)];
    if (end == b.last && !seen.insert(block).second) continue;
    bool defined = false;
    for (int i = end - 1; i >= b.first && !defined; --i) {
      const Instruction& instruction = kernel_.instructions[static_cast<std::size_t>(i)];
      if (--steps_left_ < 0 || !instruction.known() || instruction.is("CALL")) return std::nullopt;
      if (!has_register(registers_of(instruction, shape_of(instruction)).writes, reg)) continue;
      found.push_back(i);
      defined = is_always(instruction);
    }
    if (defined) continue;
    if (b.predecessors.empty() || block == 0) return std::nullopt;  // as the kernel found it
    for (const int from : b.predecessors) work.emplace_back(from, flow_.blocks[static_cast<std::size_t>(from)].last);
  }
  return found;
}

}  // namespace pinch::sass
