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

// Cycles that a wgmma wait adds beyond the product itself: 62 for one wait after eight m64n64k16 on H200
// (data/sass/h200_loops.csv, hgmma_n64: 318 cycles an iteration, 256 of them products).
constexpr double kWgmmaWaitCycles = 62;

bool is_tcgen05_mma(const Instruction& i) {
  return i.is("UTCHMMA") || i.is("UTCQMMA") || i.is("UTCIMMA") || i.is("UTCOMMA") || i.is("UTCMXQMMA");
}

// What one instruction takes of its busiest pipe.
double interval(const Cost& cost) {
  return *std::max_element(cost.uses.begin(), cost.uses.end());
}

class LoopLints {
 public:
  LoopLints(const Kernel& kernel, const Loop& loop, const LoopCode& code, const LocalMemory& local)
      : kernel_(kernel), loop_(loop), code_(code), local_(local) {}

  std::vector<Lint> find() {
    if (loop_.spins) return {};
    serialised_wgmma();
    umov_between_products();
    mask_after_pack();
    calls();
    denormal_exp2();
    divisions();
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
        (products - 1) * kWgmmaWaitCycles);
  }

  void umov_between_products() {
    int between = 0, since = 0;
    const Instruction* first = nullptr;
    bool product_seen = false;
    for (const Instruction* i : code_.instructions) {
      if (is_tcgen05_mma(*i) || is_wgmma(i->base())) {
        if (product_seen) between += since;
        product_seen = true;
        since = 0;
      } else if (i->is("UMOV") || i->is("R2UR")) {
        ++since;
        if (product_seen && first == nullptr) first = i;
      }
    }
    if (between == 0 || first == nullptr) return;
    add("umov-between-tensor", *first,
        fmt::format("{} UMOV or R2UR stand between tensor instructions and delay their issue; compute descriptors with "
                    "UIADD3 on warp-uniform values, outside the loop where they do not change",
                    between),
        between);
  }

  void mask_after_pack() {
    std::array<bool, 256> packed{};  // register: holds an 8-bit pack whose upper half is zero
    int masks = 0;
    double saved = 0;
    const Instruction* first = nullptr;
    for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
      const Instruction& i = *code_.instructions[at];
      const Access& access = code_.accesses[at];
      const bool masks_byte = i.is("LOP3") && (i.operands.find(", 0xff,") != std::string_view::npos ||
                                               i.operands.find(", 0xffff,") != std::string_view::npos);
      if (masks_byte) {
        for (const RegisterRange& r : access.reads) {
          if (r.file != RegisterFile::kGeneral || !packed[r.first]) continue;
          ++masks;
          saved += interval(code_.costs[at]);
          if (first == nullptr) first = &i;
        }
      }
      for (const RegisterRange& w : access.writes) {
        if (w.file == RegisterFile::kGeneral)
          packed[w.first] = i.is("F2FP") &&
                            (i.has_modifier("E4M3") || i.has_modifier("E5M2") || i.has_modifier("E2M1")) &&
                            !i.has_modifier("UNPACK_B");
      }
    }
    if (first == nullptr) return;
    add("mask-after-pack", *first,
        fmt::format("{} LOP3 mask the result of an 8-bit pack, whose other bits are already zero or are dropped by the "
                    "next byte "
                    "permute; take the packed 16 bits whole (mov.b32 from {{h, h}}) instead of cvt.u32.u16 and a mask",
                    masks),
        saved);
  }

  void calls() {
    for (const int index : loop_.instructions) {
      const Instruction& i = kernel_.instructions[static_cast<std::size_t>(index)];
      if (!i.is("CALL")) continue;
      std::string_view called = operand(i, 0);
      if (called.substr(0, 2) == "`(") called = called.substr(2, called.size() - 3);
      const bool always = std::find(loop_.path.begin(), loop_.path.end(), index) != loop_.path.end();
      add("call-in-loop", i,
          fmt::format("a call of {} inside the loop{}: live registers are pinned around it and nothing is scheduled "
                      "across it; use the "
                      "approximate form (__fdividef, rcp.approx), or hoist it",
                      called, always ? "" : ", on a rare path"),
          0);
      return;
    }
  }

  void denormal_exp2() {
    const Instruction* first = nullptr;
    int compares = 0, exps = 0;
    double saved = 0;
    for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
      const Instruction& i = *code_.instructions[at];
      if (i.is("MUFU.EX2")) ++exps;
      const bool compares_limit = i.is("FSETP") && (i.operands.find("-126") != std::string_view::npos ||
                                                    i.operands.find("0xc2fc0000") != std::string_view::npos);
      if (!compares_limit) continue;
      ++compares;
      saved += interval(code_.costs[at]) + 2;  // and the two multiplies that it guards
      if (first == nullptr) first = &i;
    }
    if (exps == 0 || first == nullptr) return;
    add("exp2-denormal", *first,
        fmt::format("{} of {} MUFU.EX2 are wrapped in a compare and two multiplies for denormal inputs; where they "
                    "cannot matter use "
                    "ex2.approx.ftz.f32, or compile with -ftz=true",
                    compares, exps),
        saved);
  }

  void divisions() {
    const Instruction* first = nullptr;
    int checks = 0, integer_steps = 0;
    double saved = 0;
    for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
      const Instruction& i = *code_.instructions[at];
      if (i.is("FCHK")) {
        ++checks;
        saved += 5;  // FFMA that refine the quotient
      }
      if (i.is("I2F.U32.RP") || i.is("I2F.RP")) ++integer_steps;
      if ((i.is("FCHK") || i.is("I2F.U32.RP") || i.is("I2F.RP")) && first == nullptr) first = &i;
    }
    if (first == nullptr) return;
    add("division", *first,
        fmt::format("{} exact divisions an iteration ({} integer): each is a reciprocal with its refinement; divide "
                    "once and multiply, use "
                    "div.approx, or a power of two",
                    checks + integer_steps, integer_steps),
        saved);
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
    add("drain", *first,
        fmt::format("{} instructions carry a stall count of 0, which empties the pipeline before the warp goes on "
                    "(about 37 cycles, not "
                    "measured here); usual causes are USETMAXREG, barriers and divergence",
                    count),
        0);
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

  // Loads of single words at neighbouring offsets from one address.
  void scalar_loads() {
    struct Group {
      std::vector<std::int64_t> offsets;
      const Instruction* first = nullptr;
      double cycles = 0;
    };
    std::map<std::string, Group, std::less<>> groups;
    for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
      const Instruction& i = *code_.instructions[at];
      const std::string_view base = i.base();
      if (base != "LDG" && base != "LDS") continue;
      if (i.has_modifier("64") || i.has_modifier("128") || i.has_modifier("U8") || i.has_modifier("U16")) continue;
      const auto open = i.operands.rfind('[');
      if (open == std::string_view::npos) continue;
      std::string_view address = i.operands.substr(open + 1);
      address = address.substr(0, address.find(']'));
      std::int64_t offset = 0;
      const auto plus = address.rfind('+');
      if (plus != std::string_view::npos) {
        std::string_view digits = address.substr(plus + 1);
        const bool negative = !digits.empty() && digits.front() == '-';
        if (negative) digits.remove_prefix(1);
        if (digits.substr(0, 2) == "0x") {
          std::from_chars(digits.data() + 2, digits.data() + digits.size(), offset, 16);
          if (negative) offset = -offset;
          address = address.substr(0, plus);
        }
      }
      Group& group = groups[std::string(base) + " " + std::string(address)];
      if (group.first == nullptr) group.first = &i;
      group.offsets.push_back(offset);
      group.cycles = interval(code_.costs[at]);
    }
    for (auto& [key, group] : groups) {
      std::sort(group.offsets.begin(), group.offsets.end());
      int neighbours = 0;
      for (std::size_t n = 1; n < group.offsets.size(); ++n) neighbours += group.offsets[n] - group.offsets[n - 1] == 4;
      if (neighbours == 0) continue;
      const int loads = static_cast<int>(group.offsets.size());
      const int wide = (loads + 3) / 4;
      add("scalar-loads", *group.first,
          fmt::format("{} {} of one word fetch neighbouring words; where the address is aligned to 16 bytes {} of 128 "
                      "bits would do "
                      "(float4, or __builtin_assume_aligned)",
                      loads, key.substr(0, key.find(' ')), wide),
          (loads - wide) * group.cycles);
    }
  }

  void local_traffic() {
    int spills = 0, arrays = 0;
    const Instruction *first_spill = nullptr, *first_array = nullptr;
    for (const LocalAccess& access : local_.accesses) {
      if (!std::binary_search(loop_.instructions.begin(), loop_.instructions.end(), access.instruction)) continue;
      const Instruction& i = kernel_.instructions[static_cast<std::size_t>(access.instruction)];
      ++(access.is_spill ? spills : arrays);
      const Instruction*& first = access.is_spill ? first_spill : first_array;
      if (first == nullptr) first = &i;
    }
    if (spills > 0) {
      add("spill-in-loop", *first_spill,
          fmt::format(
              "{} loads and stores of spilled registers in the loop; raise the register limit (__launch_bounds__, "
              "setmaxnreg, -maxrregcount), unroll less, or hold fewer values",
              spills),
          spills);
    }
    if (arrays > 0) {
      add("dynamic-array", *first_array,
          fmt::format(
              "{} local accesses of an array indexed at run time (not a spill, and `ptxas -v` counts none); index with "
              "constants in an unrolled loop, select with predicates, or keep it in shared memory",
              arrays),
          arrays);
    }
  }

  const Kernel& kernel_;
  const Loop& loop_;
  const LoopCode& code_;
  const LocalMemory& local_;
  std::vector<Lint> found_;
};

bool any_of_kind(const Kernel& kernel, std::initializer_list<std::string_view> bases) {
  return std::any_of(kernel.instructions.begin(), kernel.instructions.end(), [&](const Instruction& i) {
    return std::any_of(bases.begin(), bases.end(), [&](std::string_view base) { return i.is(base); });
  });
}

}  // namespace

const std::vector<LintKind>& lint_kinds() {
  static const std::vector<LintKind> kinds = {
      {"wgmma-serialised", "a wait after every wgmma"},
      {"umov-between-tensor", "UMOV or R2UR between tensor instructions"},
      {"mask-after-pack", "LOP3 0xff after an 8-bit pack"},
      {"call-in-loop", "a CALL in a loop"},
      {"exp2-denormal", "compare and multiplies around a non-ftz ex2"},
      {"division", "an exact division sequence in a loop"},
      {"drain", "a stall count of 0 in a loop"},
      {"nop-delay", "NOP that only wait"},
      {"scalar-loads", "neighbouring words loaded one by one"},
      {"spill-in-loop", "spilled registers in a loop"},
      {"dynamic-array", "a local array indexed at run time"},
      {"setmaxnreg-missing", "specialised warps that share one register count"},
      {"setmaxnreg-ignored", "setmaxnreg in PTX that ptxas left out"},
      {"missing-proxy-fence", "generic shared stores read by the async proxy without a fence (PTX)"},
      {"algebra-scale-after-exp2", "a multiply by a constant after ex2 (PTX)"},
      {"algebra-max-after-exp2", "a maximum of ex2 results (PTX)"},
      {"algebra-division-by-group", "several divisions by one value (PTX)"}};
  return kinds;
}

std::vector<Lint> lint_loop(const Kernel& kernel, const Loop& loop, const LoopCode& code, const LocalMemory& local) {
  return LoopLints(kernel, loop, code, local).find();
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
  const bool copies = any_of_kind(kernel, {"UTMALDG", "UBLKCP"}),
             multiplies = any_of_kind(kernel, {"HGMMA", "QGMMA", "IGMMA"});
  const bool waits = any_of_kind(kernel, {"SYNCS"});
  if (!sets_registers && copies && multiplies && waits && !(ptx != nullptr && ptx->uses("setmaxnreg"))) {
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
