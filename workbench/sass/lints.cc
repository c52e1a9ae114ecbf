#include "workbench/sass/lints.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "workbench/sass/operands.h"
#include "workbench/sass/wgmma.h"

namespace pinch::sass {
namespace {

bool is_tcgen05_mma(const Instruction& i) {
  return i.is("UTCHMMA") || i.is("UTCQMMA") || i.is("UTCIMMA") || i.is("UTCOMMA") || i.is("UTCMXQMMA");
}

// What one instruction takes of its busiest pipe.
double interval(const Cost& cost) {
  return *std::max_element(cost.uses.begin(), cost.uses.end());
}

class LoopLints {
 public:
  LoopLints(const LoopContext& context, const Loop& loop, const LoopCode& code)
      : kernel_(context.kernel),
        flow_(context.flow),
        local_(context.local),
        machine_(context.machine),
        live_(context.live),
        loop_(loop),
        code_(code) {}

  std::vector<Lint> find() {
    if (loop_.spins) return {};
    serialised_wgmma();
    umov_between_products();
    mask_after_pack();
    calls();
    denormal_exp2();
    divisions();
    integer_divisions();
    drains();
    delays();
    scalar_loads();
    local_traffic();
    return std::move(found_);
  }

 private:
  void add(const char* id, const Instruction& at, std::string message, double saves_cycles) {
    found_.push_back({id, at.offset, at.line, std::move(message), saves_cycles});
  }

  // What an instruction of that name takes of its busiest pipe.
  double interval_of(std::string_view mnemonic) const {
    Instruction instruction;
    instruction.mnemonic = mnemonic;
    return interval(machine_.cost(instruction));
  }

  // Products that start while none is in flight, once the loop runs: each pays for the end of the one before.
  void serialised_wgmma() {
    int products = 0, alone = 0, groups = 0;
    const Instruction* first = nullptr;
    bool open = false;  // products that no group holds yet
    for (int iteration = 0; iteration < 2; ++iteration) {
      products = alone = 0;
      for (const Instruction* i : code_.instructions) {
        if (const int left = groups_left(*i); left >= 0) groups = std::min(groups, left);
        if (!is_wgmma(i->base())) continue;
        ++products;
        alone += groups == 0 && !open;
        const bool closes = closes_group(*i);
        groups += closes;
        open = !closes;
        if (first == nullptr) first = i;
      }
    }
    if (products < 2 || alone < products) return;
    add("wgmma-serialised", *first,
        fmt::format("each of {} wgmma is waited for before the next starts, so the tensor core idles for its latency "
                    "every time; commit "
                    "several in one group and wait once, or leave a group in flight (wgmma.wait_group 1), and keep "
                    "accumulators out of ordinary instructions (ptxas says why: C7510 to C7515)",
                    products),
        (products - 1) * static_cast<double>(machine_.scheduler().wgmma_wait_cycles));
  }

  void umov_between_products() {
    int between = 0, since = 0;
    double cycles = 0, cycles_since = 0;
    const Instruction* first = nullptr;
    bool product_seen = false;
    for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
      const Instruction* i = code_.instructions[at];
      if (is_tcgen05_mma(*i) || is_wgmma(i->base())) {
        if (product_seen) {
          between += since;
          cycles += cycles_since;
        }
        product_seen = true;
        since = 0;
        cycles_since = 0;
      } else if (i->is("UMOV") || i->is("R2UR")) {
        ++since;
        cycles_since += interval(code_.costs[at]);
        if (product_seen && first == nullptr) first = i;
      }
    }
    if (between == 0 || first == nullptr) return;
    add("umov-between-tensor", *first,
        fmt::format("{} UMOV or R2UR stand between tensor instructions and delay their issue; compute descriptors with "
                    "UIADD3 on warp-uniform values, outside the loop where they do not change",
                    between),
        cycles);
  }

  // A conversion of two numbers to 8 bits, or to 4, each.
  static bool is_pack(const Instruction& i) {
    return i.is("F2FP") && i.mnemonic.find(".PACK_AB") != std::string_view::npos &&
           (i.has_modifier("E4M3") || i.has_modifier("E5M2") || i.has_modifier("E2M1"));
  }

  // Bits that a pack of two 8-bit numbers leaves zero: it keeps the lower half of its last operand above itself.
  static std::uint32_t zero_bits(const Instruction& pack) {
    const bool fills_half = pack.has_modifier("E4M3") || pack.has_modifier("E5M2");
    return fills_half && pack.mnemonic.find("MERGE_C") != std::string_view::npos && operand(pack, 3) == "RZ"
               ? 0xffff0000u
               : 0;
  }

  // An AND behind an 8-bit pack that clears only what is zero or what nothing reads.
  void mask_after_pack() {
    int masks = 0;
    double saved = 0;
    const Instruction* first = nullptr;
    for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
      const Instruction& i = *code_.instructions[at];
      const auto mask = and_mask(i);
      const auto& writes = code_.accesses[at].writes;
      if (!mask || writes.empty() || code_.accesses[at].reads.empty()) continue;
      const RegisterRange source = *(code_.accesses[at].reads.end() - 1);  // a guard stands before it
      if (source.file != RegisterFile::kGeneral) continue;
      const int index = static_cast<int>(&i - kernel_.instructions.data());
      const auto packs = live_.definitions(index, source.first);
      if (!packs || packs->empty()) continue;
      std::uint32_t zero = kAllBits;
      const bool all_packs = std::all_of(packs->begin(), packs->end(), [&](int p) {
        const Instruction& pack = kernel_.instructions[static_cast<std::size_t>(p)];
        zero &= zero_bits(pack);
        return is_pack(pack);
      });
      if (!all_packs) continue;
      const std::uint32_t cleared = ~*mask & ~zero;
      if (cleared != 0 && (live_.read_after(index, writes.begin()->first) & cleared) != 0) continue;
      ++masks;
      saved += interval(code_.costs[at]);
      if (first == nullptr) first = &i;
    }
    if (first == nullptr) return;
    add("mask-after-pack", *first,
        fmt::format(
            "{} LOP3 mask the result of an 8-bit pack and clear only bits that are zero already or that nothing "
            "reads; take the packed 16 bits whole (mov.b32 from {{h, h}}) instead of cvt.u32.u16 and a mask",
            masks),
        saved);
  }

  void calls() {
    for (const int b : loop_.blocks) {
      const Block& block = flow_.blocks[static_cast<std::size_t>(b)];
      const int index = block.last - 1;  // a call ends its block
      const Instruction& i = kernel_.instructions[static_cast<std::size_t>(index)];
      if (!i.is("CALL")) continue;
      const bool always = std::binary_search(loop_.path.begin(), loop_.path.end(), index);
      add("call-in-loop", i,
          fmt::format("a call of {} inside the loop{}: live registers are pinned around it and nothing is scheduled "
                      "across it; use the "
                      "approximate form (__fdividef, rcp.approx), or hoist it",
                      called(i), always ? "" : ", on a rare path"),
          0);
      return;
    }
  }

  // The label in the text, or the place where the word says that it goes.
  std::string called(const Instruction& call) const {
    std::string_view name = operand(call, 0);
    if (name.substr(0, 2) == "`(") name = name.substr(2, name.size() - 3);
    if (!name.empty()) return std::string(name);
    if (call.target == kNoTarget) return "a function that the code does not name";
    return fmt::format("the code at 0x{:x}", kernel_.instructions[static_cast<std::size_t>(call.target)].offset);
  }

  // FSETP.GEU P0, x, -126; @!P0 x *= 0.5; y = MUFU.EX2 x; @!P0 y *= y.
  void denormal_exp2() {
    std::array<const Instruction*, 8> compares{};  // by predicate: what set it by comparing with -126
    std::array<const Instruction*, 256> halved{};  // by register: that compare
    const Instruction* first = nullptr;
    int exps = 0, wrapped = 0;
    for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
      const Instruction& i = *code_.instructions[at];
      const Access& access = code_.accesses[at];
      const bool halves = i.is("FMUL") && i.guard != kAlways && compares[i.guard & 7] != nullptr &&
                          (operand(i, 2) == "0.5" || operand(i, 2) == "0x3f000000");
      const Instruction* limit = halves ? compares[i.guard & 7] : nullptr;
      if (i.is("MUFU.EX2")) {
        ++exps;
        for (const RegisterRange& r : access.reads) {
          if (r.file != RegisterFile::kGeneral || halved[r.first] == nullptr) continue;
          ++wrapped;
          if (first == nullptr) first = halved[r.first];
        }
      }
      const bool compares_limit = i.is("FSETP") && (operand(i, 3) == "-126" || operand(i, 3) == "0xc2fc0000");
      for (const RegisterRange& w : access.writes) {
        if (w.file == RegisterFile::kPredicate) compares[w.first & 7] = compares_limit ? &i : nullptr;
        for (int r = 0; w.file == RegisterFile::kGeneral && r < w.count && w.first + r < 256; ++r)
          halved[static_cast<std::size_t>(w.first + r)] = limit;
      }
    }
    if (wrapped == 0) return;
    add("exp2-denormal", *first,
        fmt::format("{} of {} MUFU.EX2 are wrapped in a compare and two multiplies for denormal inputs; where they "
                    "cannot matter use "
                    "ex2.approx.ftz.f32, or compile with -ftz=true",
                    wrapped, exps),
        wrapped * (interval_of("FSETP") + 2 * interval_of("FMUL")));
  }

  void divisions() {
    constexpr int kRefinements = 5;  // FFMA that refine reciprocal and quotient, beside the FCHK for the rare path
    int count = 0;
    const Instruction* first = nullptr;
    for (const Instruction* i : code_.instructions) {
      if (!i->is("FCHK")) continue;
      ++count;
      if (first == nullptr) first = i;
    }
    if (first == nullptr) return;
    add("division", *first,
        fmt::format("{} exact divisions an iteration: each is a reciprocal with its refinement; divide once and "
                    "multiply, or use div.approx",
                    count),
        count * (interval_of("FCHK") + kRefinements * interval_of("FFMA")));
  }

  // A reciprocal by floating point: I2F.RP, MUFU.RCP and F2I, then integer steps that put it right.
  void integer_divisions() {
    int count = 0;
    const Instruction* first = nullptr;
    for (const Instruction* i : code_.instructions) {
      if (!i->is("I2F.U32.RP") && !i->is("I2F.RP")) continue;
      ++count;
      if (first == nullptr) first = i;
    }
    if (first == nullptr) return;
    add("integer-division", *first,
        fmt::format("{} integer divisions an iteration, each by a floating-point reciprocal and its correction; divide "
                    "by a constant or a power of two, or keep the quotient and step it",
                    count),
        count * (interval_of("I2F") + interval_of("MUFU.RCP") + interval_of("F2I")));
  }

  void drains() {
    int count = 0;
    const Instruction* first = nullptr;
    for (const Instruction* i : code_.instructions) {
      if (!i->has_word || i->control.stall != 0) continue;
      ++count;
      if (first == nullptr) first = i;
    }
    if (first == nullptr) return;
    const double cycles = machine_.scheduler().drain_cycles;
    add("drain", *first,
        fmt::format("{} instructions carry a stall count of 0, which empties the pipeline before the warp goes on "
                    "(about {:g} cycles{}); usual causes are USETMAXREG, barriers and divergence",
                    count, cycles, machine_.scheduler().drain_measured ? "" : ", not measured"),
        count * cycles);
  }

  void delays() {
    int count = 0;
    double saved = 0;
    const Instruction* first = nullptr;
    for (const Instruction* i : code_.instructions) {
      if (!i->is("NOP")) continue;
      ++count;
      saved += i->has_word ? std::max<int>(1, i->control.stall) : 1;
      if (first == nullptr) first = i;
    }
    if (first == nullptr) return;
    add("nop-delay", *first,
        fmt::format("{} NOP only wait, because a stall count cannot hold the latency before them; give the warp "
                    "independent work between "
                    "the dependent instructions (more accumulators), or more warps",
                    count),
        saved);
  }

  // Loads of one word from one address, which nothing changes between them.
  struct LoadGroup {
    std::vector<std::int64_t> offsets;
    const Instruction* first = nullptr;
    std::string_view base;
    RegisterList reads;  // address, descriptor and guard of the first
  };

  static bool changes(const RegisterList& reads, const RegisterRange& written) {
    return std::any_of(reads.begin(), reads.end(), [&](const RegisterRange& r) {
      return r.file == written.file && r.first < written.first + written.count && written.first < r.first + r.count;
    });
  }

  // "R2.64" and 0x10 of "desc[UR4][R2.64+0x10]".
  static std::pair<std::string_view, std::int64_t> address_and_offset(std::string_view operands) {
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

  void scalar_loads() {
    constexpr std::size_t kMostOpen = 64;
    std::map<std::string, std::size_t, std::less<>> open;  // by what must be equal
    std::vector<LoadGroup> groups;
    for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
      const Instruction& i = *code_.instructions[at];
      const std::string_view base = i.base();
      if (base == "BAR" || base == "SYNCS" || open.size() > kMostOpen) open.clear();
      if ((base == "LDG" || base == "LDS") && loads_one_word(i)) {
        const auto [address, offset] = address_and_offset(i.operands);
        if (!address.empty()) {
          const auto [slot, is_new] =
              open.try_emplace(fmt::format("{} {} {}{}", base, address, i.guard, i.guard_negated), groups.size());
          if (is_new) groups.push_back({{}, &i, base, code_.accesses[at].reads});
          groups[slot->second].offsets.push_back(offset);
        }
      }
      for (const RegisterRange& written : code_.accesses[at].writes)
        std::erase_if(open, [&](const auto& entry) { return changes(groups[entry.second].reads, written); });
    }
    for (LoadGroup& group : groups) report(group);
  }

  static bool loads_one_word(const Instruction& i) {
    return std::none_of(std::begin(kOtherLoads), std::end(kOtherLoads),
                        [&](std::string_view modifier) { return i.has_modifier(modifier); });
  }
  static constexpr std::string_view kOtherLoads[] = {"64", "128", "U8", "S8", "U16", "S16", "STRONG"};

  void report(LoadGroup& group) {
    std::sort(group.offsets.begin(), group.offsets.end());
    group.offsets.erase(std::unique(group.offsets.begin(), group.offsets.end()), group.offsets.end());
    std::vector<int> best;  // words of each load, for the alignment of the address that needs fewest
    for (const int aligned_at : {0, 4, 8, 12}) {
      std::vector<int> words;
      for (std::size_t n = 0; n < group.offsets.size(); ++n) {
        constexpr int kLineOf16 = 4;
        const bool joins =
            n > 0 && group.offsets[n] == group.offsets[n - 1] + 4 &&
            (group.offsets[n] + aligned_at) >> kLineOf16 == (group.offsets[n - 1] + aligned_at) >> kLineOf16;
        if (joins) {
          ++words.back();
        } else {
          words.push_back(1);
        }
      }
      if (best.empty() || words.size() < best.size()) best = words;
    }
    const std::size_t loads = group.offsets.size();
    if (best.size() == loads) return;
    // Of each pipe, what the narrow loads take less what the wide ones do.
    std::array<double, kPipes> saved{};
    const auto count = [&](const std::string& mnemonic, double times) {
      Instruction instruction;
      instruction.mnemonic = mnemonic;
      const Cost cost = machine_.cost(instruction);
      for (std::size_t p = 0; p < saved.size(); ++p) saved[p] += times * cost.uses[p];
    };
    const std::string base(group.base);
    count(base, static_cast<double>(loads));
    for (const int words : best) count(base + (words == 1 ? "" : words == 2 ? ".64" : ".128"), -1);
    add("scalar-loads", *group.first,
        fmt::format("{} {} of one word fetch neighbouring words; where the address is aligned {} wider ones would do "
                    "(float4, or __builtin_assume_aligned)",
                    loads, base, best.size()),
        *std::max_element(saved.begin(), saved.end()));
  }

  void local_traffic() {
    int spills = 0, arrays = 0;
    double spill_cycles = 0, array_cycles = 0;
    const Instruction *first_spill = nullptr, *first_array = nullptr;
    auto next = local_.accesses.begin();
    for (const int b : loop_.blocks) {
      const Block& block = flow_.blocks[static_cast<std::size_t>(b)];
      next = std::lower_bound(next, local_.accesses.end(), block.first,
                              [](const LocalAccess& access, int first) { return access.instruction < first; });
      for (; next != local_.accesses.end() && next->instruction < block.last; ++next) {
        const Instruction& i = kernel_.instructions[static_cast<std::size_t>(next->instruction)];
        ++(next->is_spill ? spills : arrays);
        (next->is_spill ? spill_cycles : array_cycles) += interval(machine_.cost(i));
        const Instruction*& first = next->is_spill ? first_spill : first_array;
        if (first == nullptr) first = &i;
      }
    }
    if (spills > 0) {
      add("spill-in-loop", *first_spill,
          fmt::format(
              "{} loads and stores of spilled registers in the loop; raise the register limit (__launch_bounds__, "
              "setmaxnreg, -maxrregcount), unroll less, or hold fewer values",
              spills),
          spill_cycles);
    }
    if (arrays > 0) {
      add("dynamic-array", *first_array,
          fmt::format(
              "{} local accesses of an array indexed at run time (not a spill, and `ptxas -v` counts none); index with "
              "constants in an unrolled loop, select with predicates, or keep it in shared memory",
              arrays),
          array_cycles);
    }
  }

  const Kernel& kernel_;
  const Flow& flow_;
  const LocalMemory& local_;
  const Machine& machine_;
  LiveBits& live_;
  const Loop& loop_;
  const LoopCode& code_;
  std::vector<Lint> found_;
};

// What of the parts of a specialised kernel its code holds.
struct Parts {
  bool copies = false, multiplies = false, waits = false;
};
Parts parts_of(const Kernel& kernel) {
  Parts parts;
  for (const Instruction& i : kernel.instructions) {
    if (!i.known()) continue;
    switch (i.mnemonic.front()) {  // few begin so, and it is asked of every instruction
      case 'U':
        parts.copies |= i.is("UTMALDG") || i.is("UBLKCP");
        break;
      case 'H':
      case 'I':
      case 'Q':
        parts.multiplies |= is_wgmma(i.base());
        break;
      case 'S':
        parts.waits |= i.is("SYNCS");
        break;
      default:
        break;
    }
  }
  return parts;
}

}  // namespace

std::string_view name_of(Needs needs) {
  constexpr std::string_view kNames[] = {"names", "operands", "control words", "PTX"};
  return kNames[static_cast<std::size_t>(needs)];
}

const std::vector<LintKind>& lint_kinds() {
  static const std::vector<LintKind> kinds = {
      {"wgmma-serialised", "a wait after every wgmma"},
      {"umov-between-tensor", "UMOV or R2UR between tensor instructions"},
      {"mask-after-pack", "a mask after an 8-bit pack that changes nothing", Needs::kOperands},
      {"call-in-loop", "a CALL in a loop"},
      {"exp2-denormal", "compare and multiplies around a non-ftz ex2", Needs::kOperands},
      {"division", "an exact division sequence in a loop"},
      {"integer-division", "an integer division in a loop", Needs::kOperands},
      {"drain", "a stall count of 0 in a loop", Needs::kControlWords},
      {"nop-delay", "NOP that only wait"},
      {"scalar-loads", "neighbouring words loaded one by one", Needs::kOperands},
      {"spill-in-loop", "spilled registers in a loop"},
      {"dynamic-array", "a local array indexed at run time"},
      {"setmaxnreg-missing", "specialised warps that share one register count"},
      {"setmaxnreg-ignored", "setmaxnreg in PTX that ptxas left out", Needs::kPtx},
      {"missing-proxy-fence", "generic shared stores read by the async proxy without a fence", Needs::kPtx},
      {"algebra-scale-after-exp2", "a multiply by a constant after ex2", Needs::kPtx},
      {"algebra-max-after-exp2", "a maximum of ex2 results", Needs::kPtx},
      {"algebra-division-by-group", "several divisions by one value", Needs::kPtx}};
  return kinds;
}

std::vector<LintKind> lints_not_run(const Kernel& kernel, const PtxFunction* ptx) {
  const auto& code = kernel.instructions;
  const bool has_operands =
      std::any_of(code.begin(), code.end(), [](const Instruction& i) { return !i.operands.empty(); });
  std::vector<LintKind> not_run;
  for (const LintKind& kind : lint_kinds()) {
    if ((kind.needs == Needs::kOperands && !has_operands) || (kind.needs == Needs::kPtx && ptx == nullptr) ||
        (kind.needs == Needs::kControlWords && !kernel.has_words()))
      not_run.push_back(kind);
  }
  return not_run;
}

std::vector<Lint> lint_loop(const LoopContext& context, const Loop& loop, const LoopCode& code) {
  return LoopLints(context, loop, code).find();
}

std::vector<Lint> lint_kernel(const Kernel& kernel, const Flow& flow, const PtxFunction* ptx) {
  std::vector<Lint> found;
  const bool sets_registers = !flow.roles.empty();
  if (ptx != nullptr && ptx->uses("setmaxnreg") && !sets_registers) {
    found.push_back({"setmaxnreg-ignored", 0, ptx->line_of("setmaxnreg"),
                     "PTX asks for setmaxnreg, the code has no USETMAXREG: ptxas left it out, and producers hold the "
                     "registers that consumers need; "
                     "give the kernel __launch_bounds__(threads, 1) and make each role one branch of a single if",
                     0});
  }
  const Parts parts = parts_of(kernel);
  if (!sets_registers && parts.copies && parts.multiplies && parts.waits &&
      !(ptx != nullptr && ptx->uses("setmaxnreg"))) {
    found.push_back({"setmaxnreg-missing", 0, 0,
                     fmt::format("bulk copies and wgmma run under one count of {} registers; where producer and "
                                 "consumer are separate warps, setmaxnreg moves registers from "
                                 "the first to the second",
                                 kernel.registers),
                     0});
  }
  return found;
}

}  // namespace pinch::sass
