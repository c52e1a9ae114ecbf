#include "workbench/probe/bound.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "workbench/probe/proof.h"

namespace pinch::probe {
namespace {

constexpr double kMostCounted = 1e15;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= kMostCounted))
    return std::nullopt;
  return value;
}

Bound from_units(std::map<std::string, double> units, Bound result = {}) {
  std::erase_if(units, [](const auto& unit) { return unit.second <= 0; });
  result.units = units;
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, cycles] : units) order.emplace_back(cycles, name);
  std::sort(order.rbegin(), order.rend());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0) {
      result.by = order[0].second;
      result.cycles = order[0].first;
    } else {
      result.next.push_back({order[i - 1].second, order[i].second, order[i].first});
    }
  }
  return result;
}

constexpr double kLanesOfIssue = 128;  // four sub-partitions, a warp instruction of 32 lanes a cycle each

// "MUFU.EX2" with "MUFU" or "MUFU.EX2": whole modifiers only.
bool is(std::string_view opcode, std::string_view name) {
  return opcode.substr(0, name.size()) == name && (opcode.size() == name.size() || opcode[name.size()] == '.');
}

// A pair of one of the unit of `a` and one of that of `b` shows two units.
bool are_apart(const Model& model, const Entry* a, const Entry* b) {
  const auto is_of = [&](const std::string& name, const Entry* unit) {
    const Entry* entry = model.find(name);
    return name == unit->name || (entry != nullptr && !entry->group.empty() && entry->group == unit->group);
  };
  return std::any_of(model.pairs.begin(), model.pairs.end(), [&](const Overlap& p) {
    return sharing_of(p) == Sharing::kApart &&
           ((is_of(p.first, a) && is_of(p.second, b)) || (is_of(p.first, b) && is_of(p.second, a)));
  });
}

std::string names_of(const Counts& counts) {
  std::string names;
  for (const auto& [name, count] : counts) names += (names.empty() ? "" : " ") + name;
  return names;
}

bool is_lanes(const Entry& e) {
  return e.unit == "lanes/clk/SM";
}

bool has_rate(const Entry& e) {
  return (is_lanes(e) || e.unit == "instructions/cycle/core") && e.value;
}

// Cycles that the unit is taken by one instruction: of a warp, on one of four sub-partitions; or of a core.
double interval(const Entry& e) {
  return (is_lanes(e) ? kLanesOfIssue : 1) / *e.value;
}

// Of a model without an architecture: the first whose opcode has more modifiers than `name`, else the one that has most
// of them.
const Entry* entry_like(const Model& model, const std::string& name) {
  const Entry* entry = nullptr;
  for (const Entry& e : model.entries) {
    if (!has_rate(e) || e.opcode.empty()) continue;
    if (is(e.opcode, name)) return &e;
    if (is(name, e.opcode) && (entry == nullptr || e.opcode.size() > entry->opcode.size())) entry = &e;
  }
  return entry;
}

// Which entries of a model share a unit: those of one pipe, as its architecture states them, and of pipes that a pair
// shows to be one. Where a pair shows two of one pipe to be apart, both are of no pipe.
class Units {
 public:
  Units(const Model& model, const sass::Machine* stated, int sub_partitions)
      : model_(model), stated_(stated), share_(static_cast<double>(sub_partitions) / sass::kSubPartitions) {
    for (std::size_t p = 0; p < joined_.size(); ++p) joined_[p] = p;
    for (const Overlap& pair : model.pairs) {
      const Sharing sharing = sharing_of(pair);
      const auto a = pipe_of(pair.first), b = pipe_of(pair.second);
      if (sharing == Sharing::kUnknown) continue;
      measured_.insert({pair.first, pair.second});
      if (!a || !b) continue;
      if (sharing == Sharing::kApart && a == b) apart_.insert({pair.first, pair.second});
      if (sharing != Sharing::kOneUnit) continue;
      const std::size_t from = joined_[*b], to = joined_[*a];
      std::replace(joined_.begin(), joined_.end(), std::max(from, to), std::min(from, to));
    }
  }

  [[nodiscard]] sass::Cost stated(const std::string& opcode) const {
    sass::Instruction instruction;
    instruction.mnemonic = opcode;
    return stated_ == nullptr ? sass::Cost{} : stated_->cost(instruction);
  }

  /// Of an entry: half of each where its operation takes two opcodes in turn.
  [[nodiscard]] sass::Cost stated(const Entry& entry) const {
    sass::Cost cost = stated(entry.opcode);
    if (entry.also.empty()) return cost;
    const sass::Cost also = stated(entry.also);
    for (std::size_t p = 0; p < cost.uses.size(); ++p) cost.uses[p] = (cost.uses[p] + also.uses[p]) / 2;
    cost.listed = cost.listed && also.listed;
    return cost;
  }

  /// The entry of that very opcode; else, since modifiers that were left out may be those of the fastest, the fastest
  /// of those that have more, unless `cost`, what is stated of `name`, is less. None for a variant that no entry names.
  [[nodiscard]] const Entry* measured(const std::string& name, const sass::Cost& cost) const {
    const Entry* entry = nullptr;
    for (const Entry& e : model_.entries) {
      if (!has_rate(e) || !is(e.opcode, name) || !is_pure(e)) continue;
      const bool is_exact = e.opcode == name, has_exact = entry != nullptr && entry->opcode == name;
      if (is_exact == has_exact ? entry == nullptr || *e.value > *entry->value : is_exact) entry = &e;
    }
    if (entry == nullptr || entry->opcode == name || !cost.listed) return entry;
    const auto own = main_pipe(cost);
    return own && interval(*entry) <= (1 + kMaxSpread) * cost.uses[*own] ? entry : nullptr;
  }

  /// Of one instruction, by unit: the rate of `entry` on its own pipe, else what is stated. Empty where none is.
  [[nodiscard]] std::map<std::string, double> cycles(const sass::Cost& cost, const Entry* entry) const {
    std::map<std::string, double> units;
    const auto own = main_pipe(cost);
    if (!own || (entry != nullptr && apart_.count(entry->name) > 0)) return units;
    for (std::size_t p = kIssue + 1; p < cost.uses.size(); ++p) {
      double taken = static_cast<double>(cost.uses[p]);
      if (entry != nullptr) taken = p == *own ? interval(*entry) : std::min(taken, interval(*entry));
      if (is_shared_by_sm(static_cast<sass::Pipe>(p))) taken *= share_;
      double& unit = units[name_of_unit(joined_[p])];
      unit = std::max(unit, taken);
    }
    return units;
  }

  [[nodiscard]] double issue(const sass::Cost& cost, const Entry* entry) const {
    const double slots = std::max(1.0, static_cast<double>(cost.uses[kIssue]));
    return entry == nullptr ? slots : std::max(1.0, std::min(slots, interval(*entry)));
  }

  [[nodiscard]] bool is_measured(const Entry& entry) const { return measured_.count(entry.name) > 0; }

  [[nodiscard]] bool is_pipes(const std::string& unit) const {
    for (std::size_t p = kIssue + 1; p < joined_.size(); ++p) {
      if (name_of_unit(joined_[p]) == unit) return true;
    }
    return false;
  }

 private:
  static constexpr auto kIssue = static_cast<std::size_t>(sass::Pipe::kIssue);

  static std::optional<std::size_t> main_pipe(const sass::Cost& cost) {
    const auto most = std::max_element(cost.uses.begin() + kIssue + 1, cost.uses.end());
    if (!cost.listed || *most <= 0) return std::nullopt;
    return static_cast<std::size_t>(most - cost.uses.begin());
  }

  // The value is that of the opcode alone: of no mix, not spoilt, and what else its loop held on a unit that the opcode
  // takes, or may have held there, is within the spread that a figure may have.
  [[nodiscard]] bool is_pure(const Entry& entry) const {
    if (!entry.also.empty() || !entry.mark.empty()) return false;
    const Others held = others_of(entry.proof);
    const sass::Cost own = stated(entry.opcode), other = stated(held.opcode);
    int beside = held.all;
    bool shares = false;
    for (std::size_t p = kIssue + 1; p < own.uses.size(); ++p) shares |= own.uses[p] > 0 && other.uses[p] > 0;
    if (!shares) beside -= held.of_opcode;
    return beside <= kMaxSpread * held.timed;
  }

  [[nodiscard]] std::optional<std::size_t> pipe_of(const std::string& name) const {
    const Entry* entry = model_.find(name);
    return entry == nullptr || entry->opcode.empty() ? std::nullopt : main_pipe(stated(*entry));
  }

  // "fma+fma_heavy".
  [[nodiscard]] std::string name_of_unit(std::size_t root) const {
    std::string name;
    for (std::size_t p = kIssue + 1; p < joined_.size(); ++p) {
      if (joined_[p] == root) name += (name.empty() ? "" : "+") + std::string(name_of(static_cast<sass::Pipe>(p)));
    }
    return name;
  }

  const Model& model_;
  const sass::Machine* stated_;
  double share_;  // of what the sub-partitions of an SM have together
  std::array<std::size_t, sass::kPipes> joined_{};
  std::set<std::string> measured_, apart_;
};

// Adds what `count` of an instruction costs each unit; those of the whole SM less where fewer sub-partitions run it.
Result<void> charge(std::map<std::string, double>& units, const std::string& name, double count,
                    const sass::Machine& machine, int sub_partitions) {
  sass::Instruction instruction;
  instruction.mnemonic = name;
  const sass::Cost cost = machine.cost(instruction);
  if (!cost.listed)
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' has no row in the model {}; there are {}", name, machine.name(),
                             fmt::join(machine.instructions(), " ")),
                 ""};
  for (int p = 0; p < sass::kPipes; ++p) {
    const auto pipe = static_cast<sass::Pipe>(p);
    const double share = is_shared_by_sm(pipe) ? static_cast<double>(sub_partitions) / sass::kSubPartitions : 1;
    units[std::string(sass::name_of(pipe))] +=
        count * share * static_cast<double>(cost.uses[static_cast<std::size_t>(p)]);
  }
  return {};
}

}  // namespace

Result<Counts> parse_counts(const std::string& text) {
  Counts counts;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const auto equals = part.find('=');
    const auto value = equals == std::string_view::npos ? std::nullopt : number(part.substr(equals + 1));
    if (!value || equals == 0)
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("--counts '{}': give NAME=COUNT, as in MUFU.EX2=128,F2FP=64", part), ""};
    counts.emplace_back(part.substr(0, equals), *value);
  }
  if (counts.empty())
    return Error{ErrorCode::kInvalidArgument, "--counts is empty; give NAME=COUNT, as in MUFU.EX2=128,F2FP=64", ""};
  return counts;
}

Result<Counts> move_counts(const Counts& counts, const std::string& text) {
  const auto first = text.find(':'), second = text.find(':', first + 1), equals = text.find('=', second + 1);
  const auto wrong = [&](const std::string& what) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--move '{}': {}; give FROM:PERCENT:TO=N, as in MUFU.EX2:25:FFMA=6", text, what), ""};
  };
  if (first == std::string::npos || second == std::string::npos || equals == std::string::npos)
    return wrong("three parts are needed");
  const auto percent = number(std::string_view(text).substr(first + 1, second - first - 1));
  const auto each = number(std::string_view(text).substr(equals + 1));
  if (!percent || *percent > 100 || !each) return wrong("PERCENT is 0 to 100 and N a number");
  Counts moved = counts;
  const std::string from = text.substr(0, first), to = text.substr(second + 1, equals - second - 1);
  if (from.empty() || to.empty()) return wrong("FROM and TO are names of instructions");
  double amount = 0;
  bool found = false;
  for (auto& [name, count] : moved) {
    if (!is(name, from)) continue;
    found = true;
    amount += count * *percent / 100;
    count -= count * *percent / 100;
  }
  if (!found) return wrong(fmt::format("FROM is none of {}", names_of(counts)));
  const auto target = std::find_if(moved.begin(), moved.end(), [&](const auto& c) { return c.first == to; });
  if (target == moved.end()) {
    moved.emplace_back(to, amount * *each);
  } else {
    target->second += amount * *each;
  }
  return moved;
}

Result<Bound> bound(const Counts& counts, const sass::Machine& machine, int sub_partitions) {
  std::map<std::string, double> units;
  std::vector<std::string> without_rate;
  for (const auto& [name, count] : counts) {
    const auto charged = charge(units, name, count, machine, sub_partitions);
    if (charged) continue;
    without_rate.push_back(name);
    if (without_rate.size() == counts.size()) return charged.error();
    units[std::string(sass::name_of(sass::Pipe::kIssue))] += count;
  }
  Bound result;
  result.without_rate = std::move(without_rate);
  return from_units(std::move(units), std::move(result));
}

Result<LoopCost> loop_cost(std::string_view json, const std::string& where, const std::string& kernel, int loop) {
  const auto document = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  std::set<std::string> names;
  try {
    for (const auto& entry : document.at("kernels")) {
      const auto& loops = entry.at("loops");
      const auto name = entry.at("name").get<std::string>();
      names.insert(fmt::format("{} ({} loops)", name, loops.size()));
      if (name != kernel || loop < 0 || static_cast<std::size_t>(loop) >= loops.size()) continue;
      const auto& chosen = loops.at(static_cast<std::size_t>(loop));
      LoopCost cost;
      cost.arch = entry.at("arch").get<std::string>();
      cost.sub_partitions = chosen.at("sub_partitions").get<int>();
      cost.units = chosen.at("pipes").get<std::map<std::string, double>>();
      for (const auto& [opcode, count] : chosen.at("opcodes").items()) cost.counts.emplace_back(opcode, count);
      return cost;
    }
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorCode::kCorrupt, fmt::format("no document of `pinch sass --json`: {}", error.what()), where};
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("no loop {} of a kernel '{}'; there are {}", loop, kernel, fmt::join(names, ", ")), where};
}

Bound bound(const LoopCost& loop) {
  return from_units(loop.units);
}

Result<LoopCost> move_in_loop(const LoopCost& loop, const std::string& text) {
  PINCH_ASSIGN(machine, sass::Machine::of(loop.arch));
  PINCH_ASSIGN(moved, move_counts(loop.counts, text));
  LoopCost after = loop;
  for (const auto& [name, count] : moved) {  // what an instruction costs that does not move is left as reported
    const auto before =
        std::find_if(loop.counts.begin(), loop.counts.end(), [&, n = name](const auto& c) { return c.first == n; });
    const double change = count - (before == loop.counts.end() ? 0 : before->second);
    if (change != 0) PINCH_TRY(charge(after.units, name, change, *machine, loop.sub_partitions));
  }
  after.counts = std::move(moved);
  return after;
}

Result<Bound> bound(const Counts& counts, const Model& model, int sub_partitions) {
  std::shared_ptr<const sass::Machine> stated;
  if (!model.arch.empty()) {
    PINCH_ASSIGN(found, sass::Machine::of(model.arch));
    stated = std::move(found);
  }
  const Units shared(model, stated.get(), sub_partitions);
  const bool is_of_core = std::any_of(model.entries.begin(), model.entries.end(),
                                      [](const Entry& e) { return has_rate(e) && !is_lanes(e); });
  Bound result;
  std::map<std::string, double> units;
  std::map<std::string, const Entry*> alone;  // by unit, the first of each that no pipe is stated for
  for (const auto& [name, count] : counts) {
    const Entry* named = model.find(name);
    const sass::Cost cost = named != nullptr ? shared.stated(*named) : shared.stated(name);
    const Entry* entry = named;
    if (named == nullptr) {
      entry = stated == nullptr ? entry_like(model, name) : shared.measured(name, cost);
      if (entry != nullptr) result.counted_as[name] = entry->name;
    } else if (!has_rate(*named) || (cost.listed && (!named->also.empty() || !named->mark.empty()))) {
      entry = nullptr;  // the rate of a mix of two opcodes is that of neither, and a spoilt one that of none
    }
    if (entry == nullptr && cost.listed) result.rates_as_stated.push_back(name);
    if (entry == nullptr && !cost.listed) {
      result.without_rate.push_back(name);
      if (!is_of_core) units["issue"] += count;
      if (result.without_rate.size() < counts.size()) continue;
      std::set<std::string> names;
      for (const Entry& other : model.entries) {
        if (has_rate(other)) names.insert(other.name);
      }
      if (stated != nullptr) {
        for (std::string& row : stated->instructions()) names.insert(std::move(row));
      }
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("'{}' has no rate in {}; there are {}", name, model.name, fmt::join(names, " ")), ""};
    }
    if (!is_of_core) units["issue"] += count * shared.issue(cost, entry);
    const auto of_pipes = shared.cycles(cost, entry);
    for (const auto& [unit, cycles] : of_pipes) units[unit] += count * cycles;
    if (!of_pipes.empty()) {
      if (entry != nullptr && !shared.is_measured(*entry)) result.units_as_stated.push_back(name);
      continue;
    }
    if (entry == nullptr) continue;
    const std::string& unit = entry->group.empty() ? entry->name : entry->group;
    units[unit] += count * interval(*entry);
    if (count > 0) alone.emplace(unit, entry);
  }
  for (const auto& [name, cycles] : units) {
    if (!std::isfinite(cycles))
      return Error{ErrorCode::kInvalidArgument, fmt::format("the cycles of {} are more than a number holds", name),
                   model.name};
  }
  for (auto a = alone.begin(); a != alone.end(); ++a) {
    for (auto b = std::next(a); b != alone.end(); ++b) {
      if (!are_apart(model, a->second, b->second)) result.sharing_unknown.push_back(a->first + ", " + b->first);
    }
    for (const auto& [unit, cycles] : units) {
      if (shared.is_pipes(unit)) result.sharing_unknown.push_back(a->first + ", " + unit);
    }
  }
  return from_units(std::move(units), std::move(result));
}

}  // namespace pinch::probe
