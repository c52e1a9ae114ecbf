// Findings inside one loop, but for loads that could be wide: scalar_loads.cc.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "workbench/sass/lints.h"
#include "workbench/sass/operands.h"
#include "workbench/sass/scalar_loads.h"
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
      : context_(context),
        kernel_(context.kernel),
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
    for (Lint& lint : scalar_loads(context_, loop_, code_)) found_.push_back(std::move(lint));
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

  // Products of this loop, not of one inside it, that run alone once it goes round: none is in flight when they start,
  // nor when the next one does, and the wait for them is longer than what the warp does before it. A wait under a guard
  // may not be one.
  void serialised_wgmma() {
    struct Product {
      std::size_t at;     // in the path
      bool inside, idle;  // in an inner loop, which may run any number of times; starts with none in flight
      double issued;      // cycles from the first instruction
      double hidden = 0;  // cycles of other work from there to the wait for it
    };
    std::vector<Product> products;
    const double most = machine_.scheduler().wgmma_wait_cycles;
    int groups = 0;
    bool open = false;                              // products that no group holds yet
    double now = 0, clock = 0, free = 0, took = 0;  // `clock` with waits, the tensor core free at `free`
    constexpr int kIterations = 3;                  // the second comes from a loop that goes round and ends in one
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      const double began = clock;
      for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
        const Instruction& i = *code_.instructions[at];
        const bool always = i.guard == kAlways && !i.guard_negated;
        if (const int left = groups_left(i); left >= 0 && always) {
          if (left == 0 && groups > 0) {
            products.back().hidden = now - products.back().issued;
            clock = std::max(clock, free + most);
          }
          groups = std::min(groups, left);
        }
        if (is_wgmma(i.base())) {
          products.push_back({at, is_inside(i), groups == 0 && !open, now});
          free = std::max(free, clock) + code_.costs[at].uses[static_cast<std::size_t>(Pipe::kTensor)];
          const bool closes = closes_group(i);
          groups += closes;
          open = !closes;
        }
        const double issue =
            i.has_word ? std::max<double>(i.control.stall, code_.costs[at].uses[0]) : code_.costs[at].uses[0];
        now += issue;
        clock += issue;
      }
      took = clock - began;
    }
    const std::size_t each = products.size() / kIterations;
    int alone = 0;
    double saved = 0;
    const Instruction* first = nullptr;
    for (std::size_t n = each; n < 2 * each; ++n) {
      const Product& product = products[n];
      if (product.inside || !product.idle || !products[n + 1].idle) continue;
      const double takes = code_.costs[product.at].uses[static_cast<std::size_t>(Pipe::kTensor)] + most;
      const double waits = std::min(most, takes - product.hidden);
      if (waits <= 0) continue;
      saved += waits;
      if (alone++ == 0) first = code_.instructions[product.at];
    }
    saved = std::min(saved, took - least_cycles());
    if (first == nullptr || saved <= 0) return;
    add("wgmma-serialised", *first,
        fmt::format("{} of {} wgmma are each waited for before the next starts, so the tensor core idles for the "
                    "latency every time, where no other warpgroup fills it; commit several in one group and wait once, "
                    "or leave a group in flight (wgmma.wait_group 1), and keep accumulators out of ordinary "
                    "instructions (ptxas says why: C7510 to C7515)",
                    alone, each),
        saved);
  }

  // What no order of the instructions beats: the busiest pipe, and the chain to the next iteration where it is known.
  double least_cycles() const {
    std::array<double, kPipes> pipes{};
    for (const Cost& cost : code_.costs) {
      for (std::size_t p = 0; p < pipes.size(); ++p) pipes[p] += cost.uses[p];
    }
    return std::max(*std::max_element(pipes.begin(), pipes.end()), dependency_cycles(code_));
  }

  // In a loop inside this one.
  bool is_inside(const Instruction& i) const {
    const auto loop_at = [&](int block) { return flow_.blocks[static_cast<std::size_t>(block)].loop; };
    return loop_at(flow_.block_of(static_cast<int>(&i - kernel_.instructions.data()))) != loop_at(loop_.header);
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
      const bool always = std::find(loop_.path.begin(), loop_.path.end(), index) != loop_.path.end();
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

  // An operand without the mark that the reuse cache keeps it.
  static std::string_view bare(const Instruction& i, int index) {
    const std::string_view text = operand(i, index);
    return text.substr(0, text.find(".reuse"));
  }

  // FSETP.GEU P0, x, -126; @!P0 x *= 0.5; y = MUFU.EX2 x; @!P0 y *= y.
  void denormal_exp2() {
    std::array<const Instruction*, 8> compares{};     // by predicate: what set it by comparing with -126
    std::array<const Instruction*, 256> halved{};     // by register: the multiply that halved what was compared
    std::array<const Instruction*, 256> of_halved{};  // by register: the same, of whose result this is the exponential
    const Instruction* first = nullptr;
    int exps = 0, wrapped = 0;
    for (std::size_t at = 0; at < code_.instructions.size(); ++at) {
      const Instruction& i = *code_.instructions[at];
      const Access& access = code_.accesses[at];
      const Instruction* compare = i.is("FMUL") && i.guard != kAlways ? compares[i.guard & 7] : nullptr;
      const bool halves = compare != nullptr && bare(i, 1) == bare(*compare, 2) &&
                          (operand(i, 2) == "0.5" || operand(i, 2) == "0x3f000000");
      const Instruction* halves_argument = nullptr;
      exps += i.is("MUFU.EX2");
      for (const RegisterRange& r : access.reads) {
        if (r.file != RegisterFile::kGeneral) continue;
        if (i.is("MUFU.EX2") && halved[r.first] != nullptr) halves_argument = halved[r.first];
        const Instruction* half = of_halved[r.first];
        if (half == nullptr || !i.is("FMUL") || i.guard != half->guard || i.guard_negated != half->guard_negated ||
            bare(i, 1) != bare(i, 2))
          continue;
        ++wrapped;
        if (first == nullptr) first = compare != nullptr ? compare : half;
        break;
      }
      const bool compares_limit = i.is("FSETP") && (operand(i, 3) == "-126" || operand(i, 3) == "0xc2fc0000");
      for (const RegisterRange& w : access.writes) {
        if (w.file == RegisterFile::kPredicate) compares[w.first & 7] = compares_limit ? &i : nullptr;
        for (int r = 0; w.file == RegisterFile::kGeneral && r < w.count && w.first + r < 256; ++r) {
          halved[static_cast<std::size_t>(w.first) + static_cast<std::size_t>(r)] = halves ? &i : nullptr;
          of_halved[static_cast<std::size_t>(w.first) + static_cast<std::size_t>(r)] = halves_argument;
        }
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

  const LoopContext& context_;
  const Kernel& kernel_;
  const Flow& flow_;
  const LocalMemory& local_;
  const Machine& machine_;
  LiveBits& live_;
  const Loop& loop_;
  const LoopCode& code_;
  std::vector<Lint> found_;
};

}  // namespace

std::vector<Lint> lint_loop(const LoopContext& context, const Loop& loop, const LoopCode& code) {
  return LoopLints(context, loop, code).find();
}

}  // namespace pinch::sass
