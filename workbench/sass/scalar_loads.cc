#include "workbench/sass/scalar_loads.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>

#include "workbench/sass/operands.h"

namespace pinch::sass {
namespace {

// What an instruction does to the loads before and behind it.
enum class Effect : std::uint8_t { kNone, kStoresGlobal, kStoresShared, kStoresAnywhere, kOrders };

Effect effect_of(const Instruction& i) {
  struct Row {
    std::string_view base;
    Effect effect;
  };
  using enum Effect;
  static constexpr Row kRows[] = {
      {"STG", kStoresGlobal},      {"RED", kStoresGlobal},       {"REDG", kStoresGlobal},
      {"ATOMG", kStoresGlobal},    {"SUST", kStoresGlobal},      {"SURED", kStoresGlobal},
      {"SUATOM", kStoresGlobal},   {"UTMASTG", kStoresGlobal},   {"UTMAREDG", kStoresGlobal},
      {"STS", kStoresShared},      {"STSM", kStoresShared},      {"ATOMS", kStoresShared},
      {"LDGSTS", kStoresShared},   {"UTMALDG", kStoresShared},   {"STAS", kStoresShared},
      {"REDAS", kStoresShared},    {"ST", kStoresAnywhere},      {"ATOM", kStoresAnywhere},
      {"UBLKCP", kStoresAnywhere}, {"UBLKRED", kStoresAnywhere}, {"BAR", kOrders},
      {"SYNCS", kOrders},          {"WARPSYNC", kOrders},        {"MEMBAR", kOrders},
      {"FENCE", kOrders},          {"ERRBAR", kOrders},          {"CGAERRBAR", kOrders},
      {"CCTL", kOrders},           {"CCTLL", kOrders},           {"DEPBAR", kOrders},
      {"LDGDEPBAR", kOrders},      {"LDGMC", kOrders},           {"ARRIVES", kOrders},
      {"ARRIVE", kOrders},         {"WARPGROUP", kOrders},       {"UCGABAR_ARV", kOrders},
      {"UCGABAR_WAIT", kOrders},   {"ACQBULK", kOrders},         {"PREEXIT", kOrders},
      {"UTMACMDFLUSH", kOrders},   {"UTCBAR", kOrders},          {"NANOSLEEP", kOrders},
      {"ENDCOLLECTIVE", kOrders},  {"USETMAXREG", kOrders},      {"CALL", kOrders},
  };
  const std::string_view base = i.base();
  if (base.size() > 1 && base[0] == 'L' && base[1] == 'D' && i.has_modifier("STRONG"))
    return kOrders;  // volatile and acquiring loads
  const auto found = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.base == base; });
  return found == std::end(kRows) ? kNone : found->effect;
}

// Loads of one word from one address, which nothing tells apart.
struct LoadGroup {
  std::vector<std::int64_t> offsets;
  const Instruction* first = nullptr;
  RegisterList reads;  // address, descriptor and guard of the first

  bool is_told_apart_by(Effect effect) const {
    switch (effect) {
      case Effect::kNone:
        return false;
      case Effect::kStoresGlobal:  // what is constant for the kernel no store changes
        return first->is("LDG") && !first->has_modifier("CONSTANT");
      case Effect::kStoresShared:
        return first->is("LDS");
      case Effect::kStoresAnywhere:
        return !first->has_modifier("CONSTANT");
      case Effect::kOrders:
        return true;
    }
    return true;
  }
};

bool changes(const RegisterList& reads, const RegisterRange& written) {
  return std::any_of(reads.begin(), reads.end(), [&](const RegisterRange& r) {
    return r.file == written.file && r.first < written.first + written.count && written.first < r.first + r.count;
  });
}

bool loads_one_word(const Instruction& i) {
  constexpr std::string_view kOtherLoads[] = {"64", "128", "U8", "S8", "U16", "S16", "STRONG"};
  return (i.is("LDG") || i.is("LDS")) &&
         std::none_of(std::begin(kOtherLoads), std::end(kOtherLoads),
                      [&](std::string_view modifier) { return i.has_modifier(modifier); });
}

// "R2.64" and 0x10 of "desc[UR4][R2.64+0x10]".
std::pair<std::string_view, std::int64_t> address_and_offset(std::string_view operands) {
  const auto open = operands.rfind('[');
  if (open == std::string_view::npos) return {};
  std::string_view address = operands.substr(open + 1);
  address = address.substr(0, address.find(']'));
  const auto plus = address.rfind('+');
  if (plus == std::string_view::npos) return {address, 0};
  std::string_view digits = address.substr(plus + 1);
  const bool negative = !digits.empty() && digits.front() == '-';
  if (negative) digits.remove_prefix(1);
  if (digits.substr(0, 2) != "0x") return {address, 0};
  std::int64_t offset = 0;
  std::from_chars(digits.data() + 2, digits.data() + digits.size(), offset, 16);
  constexpr std::int64_t kMostOffset = 1 << 24;  // the field of the word
  if (offset > kMostOffset) return {};
  return {address.substr(0, plus), negative ? -offset : offset};
}

// Groups in the order of their first loads.
std::vector<LoadGroup> groups_of(const Flow& flow, const Loop& loop, const LoopCode& code) {
  constexpr std::size_t kMostOpen = 64;
  std::map<std::string, std::size_t, std::less<>> open;  // by what must be equal
  std::vector<LoadGroup> groups;
  int block = loop.header;
  for (std::size_t at = 0; at < code.instructions.size(); ++at) {
    const Instruction& i = *code.instructions[at];
    const Block& here = flow.blocks[static_cast<std::size_t>(block)];
    if (const int now = loop.path[at]; now < here.first || now >= here.last) {
      const int before = block;
      block = flow.block_of(now);
      // Where one way alone leads here, nothing runs between.
      const auto& from = flow.blocks[static_cast<std::size_t>(block)].predecessors;
      if (from.size() != 1 || from.front() != before) open.clear();
    }
    if (open.size() > kMostOpen) open.clear();
    if (loads_one_word(i)) {
      const auto [address, offset] = address_and_offset(i.operands);
      if (!address.empty()) {
        const auto [slot, is_new] =
            open.try_emplace(fmt::format("{} {} {}{}", i.mnemonic, address, i.guard, i.guard_negated), groups.size());
        if (is_new) groups.push_back({{}, &i, code.accesses[at].reads});
        groups[slot->second].offsets.push_back(offset);
      }
    } else if (!open.empty()) {
      if (const Effect effect = effect_of(i); effect != Effect::kNone)
        std::erase_if(open, [&](const auto& entry) { return groups[entry.second].is_told_apart_by(effect); });
    }
    for (const RegisterRange& written : code.accesses[at].writes)
      std::erase_if(open, [&](const auto& entry) { return changes(groups[entry.second].reads, written); });
  }
  return groups;
}

// Words of each load that would do, for the alignment of the address that needs fewest. A load is of one, two or four
// words and as much aligned.
std::vector<int> fewest_loads(const std::vector<std::int64_t>& offsets) {
  std::vector<int> best;
  for (const int aligned_at : {0, 4, 8, 12}) {
    std::vector<int> words;
    for (std::size_t n = 0; n < offsets.size(); n += static_cast<std::size_t>(words.back())) {
      const auto reaches = [&](int count) {
        const std::size_t last = n + static_cast<std::size_t>(count) - 1;
        return (offsets[n] + aligned_at) % (4 * count) == 0 && last < offsets.size() &&
               offsets[last] == offsets[n] + 4 * (count - 1);
      };
      words.push_back(reaches(4) ? 4 : reaches(2) ? 2 : 1);
    }
    if (best.empty() || words.size() < best.size()) best = words;
  }
  return best;
}

}  // namespace

std::vector<Lint> scalar_loads(const LoopContext& context, const Loop& loop, const LoopCode& code) {
  std::vector<Lint> found;
  for (LoadGroup& group : groups_of(context.flow, loop, code)) {
    std::sort(group.offsets.begin(), group.offsets.end());
    group.offsets.erase(std::unique(group.offsets.begin(), group.offsets.end()), group.offsets.end());
    const std::vector<int> wide = fewest_loads(group.offsets);
    if (wide.size() == group.offsets.size()) continue;
    // Of each pipe, what the narrow loads take less what the wide ones do.
    std::array<double, kPipes> saved{};
    const auto count = [&](const std::string& mnemonic, double times) {
      Instruction instruction;
      instruction.mnemonic = mnemonic;
      const Cost cost = context.machine.cost(instruction);
      for (std::size_t p = 0; p < saved.size(); ++p) saved[p] += times * cost.uses[p];
    };
    const std::string base(group.first->base());
    count(base, static_cast<double>(group.offsets.size()));
    for (const int words : wide) count(base + (words == 1 ? "" : words == 2 ? ".64" : ".128"), -1);
    found.push_back(
        {"scalar-loads", group.first->offset, group.first->line,
         fmt::format("{} {} of one word fetch neighbouring words; where the address is aligned {} of one, two or four "
                     "would do (float2, float4, or __builtin_assume_aligned)",
                     group.offsets.size(), base, wide.size()),
         *std::max_element(saved.begin(), saved.end())});
  }
  return found;
}

}  // namespace pinch::sass
