// Findings in PTX: what cannot be seen in SASS, or is cheaper to change before it.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "workbench/sass/lints.h"

namespace pinch::sass {
namespace {

bool is_exp2(const PtxInstruction& i) {
  return i.is("ex2") && !i.operands.empty();
}
bool is_multiply(const PtxInstruction& i) {
  return i.is("mul") && i.has("f32") && i.operands.size() == 3;
}
bool is_maximum(const PtxInstruction& i) {
  return i.is("max") && (i.has("f32") || i.has("f16x2") || i.has("bf16x2"));
}
bool is_division(const PtxInstruction& i) {
  return i.is("div") && i.has("f32") && i.operands.size() == 3;
}

double cycles_of(const Machine& machine, std::string_view mnemonic) {
  Instruction instruction;
  instruction.mnemonic = mnemonic;
  const Cost cost = machine.cost(instruction);
  return *std::max_element(cost.uses.begin(), cost.uses.end());
}

class PtxLints {
  using Arrays = std::set<std::string_view>;

 public:
  PtxLints(const PtxFunction& function, const Machine& machine) : function_(function), machine_(machine) {
    for (std::size_t i = 0; i < code().size(); ++i) {
      const auto& operands = code()[i].operands;
      for (std::size_t o = 0; o < operands.size(); ++o) {
        if (o == 0) {
          definitions_[operands[0]].push_back(i);
        } else {
          uses_[operands[o]].push_back(i);
        }
      }
    }
  }

  std::vector<Lint> find() {
    missing_proxy_fence();
    scale_after_exp2();
    max_after_exp2();
    division_by_group();
    return std::move(found_);
  }

 private:
  const std::vector<PtxInstruction>& code() const { return function_.instructions; }

  // The one instruction that defines `name`, or null where it has none or several.
  const PtxInstruction* definition(std::string_view name) const {
    const auto found = definitions_.find(name);
    return found != definitions_.end() && found->second.size() == 1 ? &code()[found->second[0]] : nullptr;
  }

  // A constant, or a value computed outside the loop.
  bool invariant(std::string_view name, int loop) const {
    if (name.empty()) return false;
    if (name.front() != '%') return true;
    const PtxInstruction* made = definition(name);
    return made != nullptr && loop >= 0 && made->loop != loop;
  }

  void add(const char* id, std::uint32_t line, std::string message, double saves) {
    found_.push_back({id, 0, line, printable(message), saves});
  }

  static bool reads_by_async_proxy(const PtxInstruction& i) {
    const bool copies_out =
        i.is("cp.async.bulk") && (i.has("global") && i.opcode.find(".global.shared") != std::string_view::npos);
    return copies_out || i.is("wgmma.mma_async") || i.is("tcgen05.mma") || i.is("cp.reduce.async.bulk");
  }

  static bool stores_shared(const PtxInstruction& i) { return (i.is("st") && i.has("shared")) || i.is("stmatrix"); }
  static bool loads_shared(const PtxInstruction& i) { return (i.is("ld") && i.has("shared")) || i.is("ldmatrix"); }

  // Generic stores to shared memory, then an async-proxy read of it, and no fence between: in the order of the text,
  // where the roles of a kernel follow each other, and on the ways that lead back round a loop.
  void missing_proxy_fence() {
    const PtxInstruction* store = nullptr;
    for (const PtxInstruction& i : code()) {
      if (stores_shared(i)) store = &i;
      if (i.is("fence.proxy.async")) store = nullptr;
      if (store == nullptr || !reads_by_async_proxy(i)) continue;
      add_missing_fence(*store, i);
      store = nullptr;  // one finding a store
    }
    // The last first: what its walk has seen, that of one before it to the same arrays need not.
    std::map<Arrays, std::vector<bool>> seen;
    for (std::size_t n = code().size(); n-- > 0;) {
      if (!stores_shared(code()[n])) continue;
      Arrays arrays = arrays_of(n);
      constexpr std::size_t kMostWalks = 16;  // each may go over the whole function
      if (seen.size() >= kMostWalks && seen.count(arrays) == 0) arrays.clear();
      follow_back(n, arrays, seen.try_emplace(arrays, code().size(), false).first->second);
    }
  }

  const Arrays& arrays_of(std::size_t access) {
    const auto [slot, is_new] = arrays_.try_emplace(access);
    if (is_new) slot->second = find_arrays(code()[access]).value_or(Arrays{});
    return slot->second;
  }

  // Names of the arrays that an address is computed from; none where that takes more steps than a compiler writes.
  std::optional<Arrays> find_arrays(const PtxInstruction& access) const {
    constexpr int kMostWords = 64;
    constexpr std::size_t kMostDefinitions = 8, kLongestName = 4096;
    Arrays arrays, registers;
    std::vector<std::string_view> work;
    int words = 0;
    const auto add = [&](std::string_view text) {
      constexpr std::string_view kEnds = "[]{}()+-, \t";
      while (!text.empty()) {
        const std::size_t length = std::min(text.find_first_of(kEnds), text.size());
        const std::string_view word = text.substr(0, length);
        text.remove_prefix(std::min(text.size(), length + 1));
        if (++words > kMostWords || length > kLongestName) return false;
        if (word.empty() || (word.front() >= '0' && word.front() <= '9')) continue;
        if (word.front() != '%') {
          arrays.insert(word);
        } else if (registers.insert(word).second) {
          work.push_back(word);
        }
      }
      return true;
    };
    const auto address = std::find_if(access.operands.begin(), access.operands.end(),
                                      [](std::string_view operand) { return operand.front() == '['; });
    if (address == access.operands.end() || !add(*address)) return std::nullopt;
    while (!work.empty()) {
      const auto made = definitions_.find(work.back());
      work.pop_back();
      if (made == definitions_.end()) continue;
      if (made->second.size() > kMostDefinitions) return std::nullopt;
      for (const std::size_t n : made->second) {
        const PtxInstruction& i = code()[n];
        if (i.is("ld") || i.is("atom") || i.is("call")) continue;  // an index, not an address
        for (std::size_t o = 1; o < i.operands.size(); ++o) {
          if (!add(i.operands[o])) return std::nullopt;
        }
      }
    }
    return arrays;
  }

  // Where one is not known, they may.
  static bool may_meet(const Arrays& a, const Arrays& b) {
    return a.empty() || b.empty() ||
           std::any_of(a.begin(), a.end(), [&](std::string_view array) { return b.count(array) != 0; });
  }

  void add_missing_fence(const PtxInstruction& store, const PtxInstruction& read) {
    if (!fenceless_.insert(read.line).second) return;  // one finding a read
    add("missing-proxy-fence", read.line,
        fmt::format("{} may read shared memory that the generic store at PTX line {} wrote, with no "
                    "fence.proxy.async between: the "
                    "result is undefined; add fence.proxy.async.shared::cta after the stores, before the barrier",
                    read.opcode, store.line),
        0);
  }

  // Walks from a store to `arrays` to a read that stands before it. A generic load of them on the way is what the store
  // was for, and another store to them has a walk of its own.
  void follow_back(std::size_t store, const Arrays& arrays, std::vector<bool>& seen) {
    std::vector<std::size_t> work{store + 1};
    while (!work.empty()) {
      std::size_t n = work.back();
      work.pop_back();
      for (; n < code().size() && !seen[n]; ++n) {
        seen[n] = true;
        const PtxInstruction& i = code()[n];
        if (i.is("fence.proxy.async")) break;
        if ((stores_shared(i) || loads_shared(i)) && may_meet(arrays, arrays_of(n))) break;
        if (reads_by_async_proxy(i)) {
          if (n < store) return add_missing_fence(code()[store], i);
          break;
        }
        if (i.target >= 0) work.push_back(static_cast<std::size_t>(i.target));
        if (!i.guarded && (i.is("bra") || i.is("brx") || i.is("ret") || i.is("exit") || i.is("trap"))) break;
      }
    }
  }

  // Candidates are grouped by loop, so that saves_cycles is of one iteration.
  struct Group {
    int count = 0;
    std::uint32_t line = 0;
  };
  void count(std::map<int, Group>& groups, const PtxInstruction& i) {
    Group& group = groups[i.loop];
    if (group.count++ == 0) group.line = i.line;
  }

  // ex2(x) * s = ex2(x + log2 s), and the sum is free where x is already an fma.
  void scale_after_exp2() {
    std::map<int, Group> groups;
    for (const PtxInstruction& i : code()) {
      if (!is_multiply(i)) continue;
      for (int side = 1; side <= 2; ++side) {
        const PtxInstruction* exponential = definition(i.operands[static_cast<std::size_t>(side)]);
        if (exponential == nullptr || !is_exp2(*exponential) || exponential->loop != i.loop) continue;
        if (!invariant(i.operands[static_cast<std::size_t>(3 - side)], i.loop)) continue;
        if (uses_.at(i.operands[static_cast<std::size_t>(side)]).size() != 1) continue;
        count(groups, i);
        break;
      }
    }
    const double cycles = cycles_of(machine_, "FMUL");
    for (const auto& [loop, group] : groups) {
      add("algebra-scale-after-exp2", group.line,
          fmt::format("{} multiplies by a constant follow ex2: 2^x * s = 2^(x + log2 s), and log2 s joins the fma that "
                      "makes x; "
                      "{} instructions x {:g} cycles",
                      group.count, group.count, cycles),
          group.count * cycles);
    }
  }

  // ex2 rises, so the maximum of its results is ex2 of the maximum of its arguments.
  void max_after_exp2() {
    std::map<int, Group> groups;
    for (const PtxInstruction& i : code()) {
      if (!is_maximum(i)) continue;
      const bool of_exp2 = std::any_of(i.operands.begin() + 1, i.operands.end(), [&](std::string_view name) {
        const PtxInstruction* made = definition(name);
        return made != nullptr && is_exp2(*made) && made->loop == i.loop;
      });
      if (of_exp2) count(groups, i);
    }
    const double cycles = cycles_of(machine_, "FMNMX");
    for (const auto& [loop, group] : groups) {
      add("algebra-max-after-exp2", group.line,
          fmt::format("{} maxima of ex2 results: ex2 rises with its argument, so take the maximum of the arguments, "
                      "where a row "
                      "maximum often exists already, and one ex2 of it; {} instructions x {:g} cycles",
                      group.count, group.count, cycles),
          group.count * cycles);
    }
  }

  // x/g, y/g, ...: one reciprocal and multiplies.
  void division_by_group() {
    std::map<std::pair<int, std::string_view>, Group> groups;
    for (const PtxInstruction& i : code()) {
      if (!is_division(i)) continue;
      Group& group = groups[{i.loop, i.operands[2]}];
      if (group.count++ == 0) group.line = i.line;
    }
    const double cycles = cycles_of(machine_, "MUFU.RCP");
    for (const auto& [key, group] : groups) {
      const bool constant = invariant(key.second, key.first);
      if (group.count < 2 && !constant) continue;
      const int saved = constant && key.first >= 0 ? group.count : group.count - 1;
      if (saved == 0) continue;
      add("algebra-division-by-group", group.line,
          fmt::format("{} divisions by {}{}: take its reciprocal once and multiply (the last bit may differ), or fold "
                      "it into a "
                      "later scale; {} instructions x {:g} cycles",
                      group.count, key.second, constant ? ", which the loop does not change" : "", saved, cycles),
          saved * cycles);
    }
  }

  const PtxFunction& function_;
  const Machine& machine_;
  std::map<std::string_view, std::vector<std::size_t>> definitions_, uses_;
  std::map<std::size_t, Arrays> arrays_;  // of instructions that access shared memory
  std::set<std::uint32_t> fenceless_;     // lines of reads
  std::vector<Lint> found_;
};

}  // namespace

std::vector<Lint> lint_ptx(const PtxFunction& function, const Machine& machine) {
  return PtxLints(function, machine).find();
}

}  // namespace pinch::sass
