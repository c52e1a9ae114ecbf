#include "workbench/sass/diff.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace pinch::sass {
namespace {

using nlohmann::ordered_json;

using Mix = std::map<std::string_view, int>;

Mix mix_of(const Kernel& kernel) {
  Mix mix;
  for (const Instruction& i : kernel.instructions) {
    if (!i.is("NOP")) ++mix[i.mnemonic];  // NOP pad a section's end
  }
  return mix;
}

constexpr double kEqual = 1;

// Shared instructions over all: kEqual for equal mixes. Both are in the order of names.
template <class M>
double likeness(const M& a, const M& b) {
  std::int64_t shared = 0, all = 0;
  auto x = a.begin(), y = b.begin();
  while (x != a.end() || y != b.end()) {
    const bool has_x = y == b.end() || (x != a.end() && x->first <= y->first),
               has_y = x == a.end() || (y != b.end() && y->first <= x->first);
    if (has_x && has_y) shared += std::min(x->second, y->second);
    if (has_x) all += (x++)->second;
    if (has_y) all += (y++)->second;
  }
  return all == 0 ? kEqual : 2 * static_cast<double>(shared) / static_cast<double>(all);
}

// Of a branch, the operands before the place that it goes to, which stands last.
std::string_view operands_before_place(const Instruction& branch) {
  const auto comma = branch.operands.rfind(',');
  return branch.operands.substr(0, comma == std::string_view::npos ? 0 : comma);
}

// A place that both sides know is an instruction: its name is a label, which tools number in their own ways, or an
// offset.
bool same_operands(const Instruction& x, const Instruction& y) {
  if (x.operands.empty() || y.operands.empty()) return true;
  if (x.target == kNoTarget || y.target == kNoTarget) return x.operands == y.operands;
  return x.target == y.target && operands_before_place(x) == operands_before_place(y);
}

// Words say all where both sides have them, whatever wrote their names: the opcode map knows no operands. Text may lack
// words.
bool same_code(const Kernel& a, const Kernel& b) {
  return std::equal(a.instructions.begin(), a.instructions.end(), b.instructions.begin(), b.instructions.end(),
                    [](const Instruction& x, const Instruction& y) {
                      if (x.has_word && y.has_word) return x.low == y.low && x.high == y.high;
                      return x.mnemonic == y.mnemonic && same_operands(x, y) && x.guard == y.guard &&
                             x.guard_negated == y.guard_negated;
                    });
}

bool is_by_map(const Kernel& kernel) {
  return kernel.mnemonics_from == "opcode map";
}

// Of two numbers that a file may not say (-1): only known ones differ.
bool same_where_known(int a, int b) {
  return a < 0 || b < 0 || a == b;
}

// None where the names would decide and are of two roads, which do not say equally much.
std::optional<Verdict> judge(const Kernel& a, const Kernel& b) {
  const bool same_resources = same_where_known(a.registers, b.registers) &&
                              same_where_known(a.frame_bytes, b.frame_bytes) &&
                              same_where_known(a.shared_bytes, b.shared_bytes);
  if (same_code(a, b)) return same_resources ? Verdict::kSame : Verdict::kResources;
  if (is_by_map(a) != is_by_map(b)) return std::nullopt;
  if (mix_of(a) != mix_of(b)) return Verdict::kCode;
  return same_resources ? Verdict::kSchedule : Verdict::kResources;
}

// Loops in order; where numbers differ, each loop of the shorter side takes the likest that is left in order.
std::vector<LoopPair> pair_loops(const KernelReport& a, const KernelReport& b) {
  std::vector<LoopPair> pairs;
  std::size_t from = 0;
  for (const LoopReport& loop : a.loops) {
    std::size_t best = b.loops.size();
    double best_likeness = 0.5;
    const std::size_t spare = b.loops.size() - from;
    for (std::size_t j = from; j < b.loops.size() && best_likeness < kEqual; ++j) {
      if (b.loops[j].depth != loop.depth) continue;
      const double like = a.loops.size() == b.loops.size() && j == from ? 2 : likeness(loop.mix, b.loops[j].mix);
      if (like > best_likeness) {
        best = j;
        best_likeness = like;
      }
    }
    if (spare == 0 || best == b.loops.size()) continue;
    pairs.push_back({&loop, &b.loops[best]});
    from = best + 1;
  }
  return pairs;
}

using Known = std::optional<double>;

Known known(int value) {
  return value < 0 ? Known() : Known(value);
}

ordered_json both(const Known& a, const Known& b) {
  const auto number = [](const Known& v) {
    if (!v) return ordered_json(nullptr);
    return std::floor(*v) == *v ? ordered_json(static_cast<std::int64_t>(*v))
                                : ordered_json(std::round(*v * 1000) / 1000);
  };
  return {number(a), number(b)};
}

ordered_json mix_changes(const InstructionMix& a, const InstructionMix& b) {
  ordered_json changes = ordered_json::object();
  std::set<std::string> names;
  for (const auto& [name, count] : a) names.insert(name);
  for (const auto& [name, count] : b) names.insert(name);
  for (const std::string& name : names) {
    const auto in_a = a.find(name), in_b = b.find(name);
    const int x = in_a == a.end() ? 0 : in_a->second, y = in_b == b.end() ? 0 : in_b->second;
    if (x != y) changes[name] = {x, y};
  }
  return changes;
}

// By whole names, which are of two roads where the words are the same.
ordered_json changed_mix(const KernelPair& pair) {
  if (pair.verdict != Verdict::kCode) return ordered_json::object();
  InstructionMix a, b;
  for (const auto& [name, count] : mix_of(*pair.a->kernel)) a[std::string(name)] = count;
  for (const auto& [name, count] : mix_of(*pair.b->kernel)) b[std::string(name)] = count;
  return mix_changes(a, b);
}

std::string change(const char* what, const Known& a, const Known& b) {
  if (a == b) return "";
  const auto number = [](const Known& v) { return v ? fmt::format("{:g}", *v) : "?"; };
  return fmt::format(", {} {} -> {}{}", what, number(a), number(b),
                     a && b && *a > 0 ? fmt::format(" ({:+.1f}%)", 100 * (*b / *a - 1)) : "");
}

// "S01 4 -> 6, S04 3 -> 1": instructions by stall count, where they changed.
std::string stall_changes(const LoopReport& a, const LoopReport& b) {
  std::string changes;
  for (std::size_t s = 0; s < a.stalls.size(); ++s) {
    if (a.stalls[s] != b.stalls[s])
      changes += fmt::format("{}S{:02} {} -> {}", changes.empty() ? "" : ", ", s, a.stalls[s], b.stalls[s]);
  }
  return changes;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kSchedule:
      return "schedule only";
    case Verdict::kResources:
      return "resources";
    case Verdict::kCode:
      return "code";
  }
  return "code";
}

Result<ProgramDiff> diff(const std::vector<KernelReport>& a, const std::vector<KernelReport>& b) {
  ProgramDiff result;
  const KernelReport* two_roads = nullptr;
  std::vector<bool> taken(b.size(), false);
  const auto pair = [&](const KernelReport& x, std::size_t j, bool by_name) {
    taken[j] = true;
    const auto verdict = judge(*x.kernel, *b[j].kernel);
    if (!verdict) two_roads = &x;
    result.kernels.push_back({&x, &b[j], by_name, verdict.value_or(Verdict::kCode), pair_loops(x, b[j])});
  };
  using Key = std::pair<std::string_view, std::string_view>;
  const auto key_of = [](const KernelReport& x) { return Key{x.kernel->name, x.kernel->arch}; };
  std::map<Key, std::vector<std::size_t>> by_name;  // the last first, so that the next is at the back
  for (std::size_t j = b.size(); j-- > 0;) by_name[key_of(b[j])].push_back(j);
  std::vector<const KernelReport*> unmatched;
  for (const KernelReport& x : a) {
    auto& same_name = by_name[key_of(x)];
    if (same_name.empty()) {
      unmatched.push_back(&x);
      continue;
    }
    pair(x, same_name.back(), true);
    same_name.pop_back();
  }
  constexpr double kAlike = 0.8;
  std::vector<Mix> mixes(b.size());
  for (std::size_t j = 0; j < b.size() && !unmatched.empty(); ++j) {
    if (!taken[j]) mixes[j] = mix_of(*b[j].kernel);
  }
  for (const KernelReport* x : unmatched) {
    std::size_t best = b.size();
    double best_likeness = 0;
    const Mix mix = mix_of(*x->kernel);
    for (std::size_t j = 0; j < b.size() && best_likeness < kEqual; ++j) {
      if (taken[j] || b[j].kernel->arch != x->kernel->arch) continue;
      const double like = likeness(mix, mixes[j]);
      if (like >= kAlike && like > best_likeness) {
        best = j;
        best_likeness = like;
      }
    }
    if (best < b.size()) {
      pair(*x, best, false);
    } else {
      result.only_a.push_back(x);
    }
  }
  if (two_roads != nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 "the two sides do not hold the same words, and one names its instructions by the opcode map, the "
                 "other by a disassembler, which says more: compare two binaries under one --disassembler, or two "
                 "texts",
                 two_roads->kernel->name};
  }
  for (std::size_t j = 0; j < b.size(); ++j) {
    if (!taken[j]) result.only_b.push_back(&b[j]);
  }
  return result;
}

ordered_json to_json(const ProgramDiff& diff, const AnalysisOptions& options) {
  auto kernels = ordered_json::array();
  for (const KernelPair& pair : diff.kernels) {
    const Kernel &a = *pair.a->kernel, &b = *pair.b->kernel;
    auto loops = ordered_json::array();
    for (const LoopPair& loop : pair.loops) {
      ordered_json transitions = ordered_json::object();
      for (std::size_t i = 0; i < options.pairs.size(); ++i) {
        transitions[options.pairs[i].first + "," + options.pairs[i].second] =
            both(loop.a->interleavings[i].transitions, loop.b->interleavings[i].transitions);
      }
      loops.push_back({{"begin", both(loop.a->begin, loop.b->begin)},
                       {"depth", loop.a->depth},
                       {"instructions", both(loop.a->instructions, loop.b->instructions)},
                       {"bound_cycles", both(loop.a->bound_cycles, loop.b->bound_cycles)},
                       {"bound_by", {name_of(loop.a->bound_by), name_of(loop.b->bound_by)}},
                       {"simulated_cycles", both(loop.a->simulated_cycles, loop.b->simulated_cycles)},
                       {"transitions", transitions},
                       {"mix", mix_changes(loop.a->mix, loop.b->mix)},
                       {"stalls", {loop.a->stalls, loop.b->stalls}}});
    }
    const LocalMemory &local_a = pair.a->local, &local_b = pair.b->local;
    kernels.push_back(
        {{"name", a.name},
         {"name_b", b.name},
         {"arch", a.arch},
         {"matched_by", pair.by_name ? "name" : "shape"},
         {"verdict", name_of(pair.verdict)},
         {"registers", both(known(a.registers), known(b.registers))},
         {"frame_bytes", both(known(a.frame_bytes), known(b.frame_bytes))},
         {"shared_bytes", both(known(a.shared_bytes), known(b.shared_bytes))},
         {"instructions", both(static_cast<double>(a.instructions.size()), static_cast<double>(b.instructions.size()))},
         {"local",
          {{"spill_loads", both(local_a.spill_loads, local_b.spill_loads)},
           {"spill_stores", both(local_a.spill_stores, local_b.spill_stores)},
           {"array_loads", both(local_a.array_loads, local_b.array_loads)},
           {"array_stores", both(local_a.array_stores, local_b.array_stores)}}},
         {"mix", changed_mix(pair)},
         {"loops", loops}});
  }
  const auto names = [](const std::vector<const KernelReport*>& reports) {
    auto list = ordered_json::array();
    for (const KernelReport* report : reports)
      list.push_back({{"name", report->kernel->name}, {"arch", report->kernel->arch}});
    return list;
  };
  return {{"kernels", kernels}, {"only_a", names(diff.only_a)}, {"only_b", names(diff.only_b)}};
}

std::string to_text(const ProgramDiff& diff, const AnalysisOptions& options) {
  std::string out;
  const auto into = std::back_inserter(out);
  for (const KernelPair& pair : diff.kernels) {
    const Kernel &a = *pair.a->kernel, &b = *pair.b->kernel;
    const auto accesses = [](const KernelReport* r) { return static_cast<double>(r->local.accesses.size()); };
    fmt::format_to(
        into, "{}{} ({}): {}{}{}{}{}\n", a.name, pair.by_name ? "" : " -> " + b.name, a.arch, name_of(pair.verdict),
        change("registers", known(a.registers), known(b.registers)),
        change("frame", known(a.frame_bytes), known(b.frame_bytes)) +
            change("shared", known(a.shared_bytes), known(b.shared_bytes)),
        change("instructions", static_cast<double>(a.instructions.size()), static_cast<double>(b.instructions.size())),
        change("local accesses", accesses(pair.a), accesses(pair.b)));
    if (pair.verdict == Verdict::kSame) continue;
    for (const LoopPair& loop : pair.loops) {
      fmt::format_to(into, "  loop 0x{:x} -> 0x{:x}: bound {:g} by {}{}{}{}{}", loop.a->begin, loop.b->begin,
                     loop.b->bound_cycles, name_of(loop.b->bound_by),
                     loop.b->simulated_cycles ? fmt::format(", simulated {:.1f}", *loop.b->simulated_cycles) : "",
                     change("instructions", loop.a->instructions, loop.b->instructions),
                     change("bound", loop.a->bound_cycles, loop.b->bound_cycles),
                     change("simulated", loop.a->simulated_cycles, loop.b->simulated_cycles));
      for (std::size_t i = 0; i < options.pairs.size(); ++i) {
        out += change((options.pairs[i].first + "," + options.pairs[i].second + " transitions").c_str(),
                      loop.a->interleavings[i].transitions, loop.b->interleavings[i].transitions);
      }
      out += '\n';
      if (const std::string stalls = stall_changes(*loop.a, *loop.b); !stalls.empty())
        fmt::format_to(into, "    stall counts: {}\n", stalls);
    }
  }
  for (const KernelReport* report : diff.only_a)
    fmt::format_to(into, "{} ({}): only in the first\n", report->kernel->name, report->kernel->arch);
  for (const KernelReport* report : diff.only_b)
    fmt::format_to(into, "{} ({}): only in the second\n", report->kernel->name, report->kernel->arch);
  return out;
}

}  // namespace pinch::sass
