#include "workbench/sass/opcode_map.h"

#include <fmt/core.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unordered_map>

#include "embedded/sass_opcodes.h"

namespace pinch::sass {
namespace {

struct Field {
  int bit = 0, bits = 0;
  std::map<unsigned, std::string> values;
};

struct ArchMap {
  std::unordered_map<unsigned, std::string> opcodes;
  std::map<std::string, Field, std::less<>> fields;
};

// Mnemonics outlive every program, so that string_views into them may be kept.
class Names {
 public:
  std::string_view keep(std::string name) { return *names_.insert(std::move(name)).first; }

 private:
  std::set<std::string> names_;
};

const std::map<int, ArchMap>& maps() {
  static const std::map<int, ArchMap> made = [] {
    std::map<int, ArchMap> result;
    const auto json = nlohmann::json::parse(embedded::sass_opcodes);
    for (const auto& [sm, arch] : json.at("archs").items()) {
      ArchMap& map = result[std::stoi(sm)];
      for (const auto& [key, name] : arch.at("opcodes").items())
        map.opcodes[static_cast<unsigned>(std::stoul(key, nullptr, 16))] = name.get<std::string>();
      for (const auto& [base, field] : arch.at("fields").items()) {
        Field& into = map.fields[base];
        into.bit = field.at("bit").get<int>();
        into.bits = field.at("bits").get<int>();
        for (const auto& [value, name] : field.at("values").items())
          into.values[static_cast<unsigned>(std::stoul(value))] = name.get<std::string>();
      }
    }
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

unsigned key_of(const Instruction& i) {
  return static_cast<unsigned>(i.low & 0xfff) | static_cast<unsigned>(i.high >> 27 & 1) << 12;
}

unsigned field_of(const Instruction& i, const Field& field) {
  const std::uint64_t word = field.bit >= 64 ? i.high >> (field.bit - 64) : i.low >> field.bit;
  return static_cast<unsigned>(word & ((1u << field.bits) - 1));
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

// Columns of a wgmma: bits 53 to 57 hold N/8 - 1 (read off builds with N of 16, 64, 128, 192 and 256).
unsigned wgmma_n(const Instruction& i) {
  return 8 * (static_cast<unsigned>(i.low >> 53 & 31) + 1);
}

constexpr unsigned kPredicateTrue = 7;

}  // namespace

void name_opcodes(Kernel& kernel) {
  static Names names;
  const ArchMap* map = map_of(kernel.arch);
  if (map == nullptr) return;
  const int sm = std::atoi(kernel.arch.c_str() + 3);
  for (std::size_t index = 0; index < kernel.instructions.size(); ++index) {
    Instruction& i = kernel.instructions[index];
    const auto found = map->opcodes.find(key_of(i));
    if (found == map->opcodes.end()) continue;
    i.mnemonic = found->second;
    if (const auto field = map->fields.find(found->second); field != map->fields.end()) {
      const auto value = field->second.values.find(field_of(i, field->second));
      if (value != field->second.values.end() && !value->second.empty())
        i.mnemonic = names.keep(found->second + "." + value->second);
    }
    if (i.is("HGMMA") || i.is("QGMMA") || i.is("IGMMA"))
      i.mnemonic = names.keep(fmt::format("{}.64x{}", found->second, wgmma_n(i)));
    const bool jumps = i.is("BRA") || i.is("CALL");
    if (!jumps && !i.is("EXIT") && !i.is("RET")) continue;
    i.conditional = i.guard != kAlways || i.guard_negated;
    if (!jumps) continue;
    if (i.is("BRA") && (i.high >> 23 & 15) != kPredicateTrue) i.conditional = true;
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
