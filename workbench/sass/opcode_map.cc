#include "workbench/sass/opcode_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "embedded/sass_opcodes.h"
#include "workbench/sass/wgmma.h"

namespace pinch::sass {
namespace {

constexpr std::size_t kOperations = 512;  // bits 0 to 8; bits 9 to 11 say where the operands come from

struct Field {
  int bit = 0, bits = 0;
  std::vector<std::string> values;  // whole mnemonics; empty where no build had the value
};

// Bits that choose between the names of one operation.
struct Shared {
  std::vector<int> bits;
  std::vector<std::string> values;
};

struct Operation {
  std::string name;  // empty where no build had it
  std::optional<Field> field;
  std::optional<Shared> shared;
  bool is_wgmma = false, jumps = false, leaves = false;
};

using ArchMap = std::array<Operation, kOperations>;

std::size_t number_of(const std::string& key, int base) {
  return std::stoul(key, nullptr, base);
}

void read_operations(const nlohmann::json& arch, ArchMap& map) {
  std::unordered_map<std::string, Field> fields;
  for (const auto& [base, entry] : arch.at("fields").items()) {
    Field& field = fields[base];
    field.bit = entry.at("bit").get<int>();
    field.bits = entry.at("bits").get<int>();
    field.values.resize(std::size_t{1} << field.bits);
    for (const auto& [value, modifier] : entry.at("values").items()) {
      const auto text = modifier.get<std::string>();
      field.values.at(number_of(value, 10)) = text.empty() ? base : base + "." + text;
    }
  }
  for (const auto& [key, value] : arch.at("opcodes").items()) {
    Operation& into = map.at(number_of(key, 16));
    into.name = value.get<std::string>();
    if (const auto field = fields.find(into.name); field != fields.end()) into.field = field->second;
    const std::string base = into.name.substr(0, into.name.find('.'));
    into.is_wgmma = is_wgmma(base);
    into.jumps = base == "BRA" || base == "CALL";
    into.leaves = base == "EXIT" || base == "RET";
  }
  for (const auto& [key, entry] : arch.at("shared").items()) {
    Shared& shared = map.at(number_of(key, 16)).shared.emplace();
    shared.bits = entry.at("bits").get<std::vector<int>>();
    shared.values.resize(std::size_t{1} << shared.bits.size());
    for (const auto& [value, name] : entry.at("values").items())
      shared.values.at(number_of(value, 10)) = name.get<std::string>();
  }
}

const std::map<int, ArchMap>& maps() {
  static const std::map<int, ArchMap> made = [] {
    std::map<int, ArchMap> result;
    const auto json = nlohmann::json::parse(embedded::sass_opcodes);
    for (const auto& [sm, arch] : json.at("archs").items()) read_operations(arch, result[std::stoi(sm)]);
    return result;
  }();
  return made;
}

// The map of the arch, else of the newest older one: encodings change with generations, not within them.
const ArchMap* map_of(const std::string& arch) {
  const int sm = arch.size() > 3 ? std::atoi(arch.c_str() + 3) : 0;
  const ArchMap* best = nullptr;
  for (const auto& [number, map] : maps()) {
    if (number <= sm) best = &map;
  }
  return best;
}

unsigned bits_of(const Instruction& i, int bit, int bits) {
  const std::uint64_t word = bit >= 64 ? i.high >> (bit - 64) : i.low >> bit;
  return static_cast<unsigned>(word & ((1u << bits) - 1));
}

// Points into the map, which outlives every program; empty where the map has no name.
std::string_view name_in(const Operation& operation, const Instruction& i) {
  if (operation.shared) {
    std::size_t value = 0;
    for (std::size_t place = 0; place < operation.shared->bits.size(); ++place)
      value |= std::size_t{bits_of(i, operation.shared->bits[place], 1)} << place;
    return operation.shared->values[value];
  }
  if (operation.field) {
    const std::string& whole = operation.field->values[bits_of(i, operation.field->bit, operation.field->bits)];
    if (!whole.empty()) return whole;
  }
  return operation.name;
}

// Byte offset that a branch adds to the offset behind it: sm_90 and later split it, its low byte lies at bits 16 to 23.
std::int64_t branch_distance(const Instruction& i, int sm) {
  const std::uint64_t upper = i.low >> 34 | i.high << 30;
  if (sm >= 90) {
    const std::uint64_t joined = (upper & 0xffffffffffull) << 8 | (i.low >> 16 & 0xff);
    return static_cast<std::int64_t>(joined << 16) >> 14;  // 48 bits, times 4
  }
  return static_cast<std::int64_t>((upper & 0xffffffffffffull) << 16) >> 14;
}

// "HGMMA.64x128" by the columns of a wgmma: bits 53 to 57 hold N/8 - 1 (read off builds with N of 16, 64, 128, 192 and
// 256).
std::string_view wgmma_name(const Operation& operation, const Instruction& i) {
  static const auto names = [] {
    std::map<std::string, std::array<std::string, 32>, std::less<>> made;
    for (const char* base : {"HGMMA", "QGMMA", "IGMMA"}) {
      for (unsigned n = 0; n < 32; ++n) made[base][n] = fmt::format("{}.64x{}", base, 8 * (n + 1));
    }
    return made;
  }();
  return names.find(operation.name)->second[bits_of(i, 53, 5)];
}

constexpr unsigned kPredicateTrue = 7;

}  // namespace

bool is_opcode(std::string_view base) {
  const auto has = [&](const std::string& name) { return name.substr(0, name.find('.')) == base; };
  for (const auto& [sm, map] : maps()) {
    for (const Operation& operation : map) {
      if (has(operation.name)) return true;
      if (operation.shared && std::any_of(operation.shared->values.begin(), operation.shared->values.end(), has))
        return true;
    }
  }
  return false;
}

void name_opcodes(Kernel& kernel) {
  kernel.mnemonics_from = "opcode map";
  const ArchMap* map = map_of(kernel.arch);
  if (map == nullptr) return;
  const int sm = std::atoi(kernel.arch.c_str() + 3);
  for (Instruction& i : kernel.instructions) {
    const Operation& operation = (*map)[i.low & (kOperations - 1)];
    i.mnemonic = operation.is_wgmma ? wgmma_name(operation, i) : name_in(operation, i);
    if (!operation.jumps && !operation.leaves) continue;
    i.conditional = i.guard != kAlways || i.guard_negated;
    if (!operation.jumps) continue;
    if (i.is("BRA") && (i.high >> 23 & 15) != kPredicateTrue) i.conditional = true;
    constexpr unsigned kBranch = 0x947, kUniformOperand = 91;  // BRA.DIV and BRA.CONV, by a register of the warp
    if ((i.low & 0xfff) == kBranch && (i.high >> (kUniformOperand - 64) & 1) != 0) i.conditional = true;
    constexpr unsigned kBranchOnUniform = 0x547;  // its predicate lies at bits 24 to 27
    if ((i.low & 0xfff) == kBranchOnUniform && (i.low >> 24 & 15) != kPredicateTrue) i.conditional = true;
    const std::int64_t to = static_cast<std::int64_t>(i.offset) + kInstructionBytes + branch_distance(i, sm);
    if (to >= 0 && to % kInstructionBytes == 0 &&
        to / kInstructionBytes < static_cast<std::int64_t>(kernel.instructions.size())) {
      i.target = static_cast<std::int32_t>(to / kInstructionBytes);
    }
  }
}

}  // namespace pinch::sass
