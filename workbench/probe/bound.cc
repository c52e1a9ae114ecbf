#include "workbench/probe/bound.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

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

Bound from_units(std::map<std::string, double> units) {
  Bound result;
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

// Adds what `count` of an instruction costs each unit; those of the whole SM less where fewer sub-partitions run it.
Result<void> charge(std::map<std::string, double>& units, const std::string& name, double count,
                    const sass::Machine& machine, int sub_partitions = sass::kSubPartitions) {
  sass::Instruction instruction;
  instruction.mnemonic = name;
  const sass::Cost cost = machine.cost(instruction);
  if (!cost.listed)
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format(
            "'{}' has no row in the model {}; `pinch sass` names instructions, data/machines/{}.json lists them", name,
            machine.name(), machine.name()),
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

Result<Bound> bound(const Counts& counts, const sass::Machine& machine) {
  std::map<std::string, double> units;
  std::vector<std::string> without_rate;
  for (const auto& [name, count] : counts) {
    const auto charged = charge(units, name, count, machine);
    if (charged) continue;
    without_rate.push_back(name);
    if (without_rate.size() == counts.size()) return charged.error();
    units[std::string(sass::name_of(sass::Pipe::kIssue))] += count;
  }
  Bound result = from_units(std::move(units));
  result.without_rate = std::move(without_rate);
  return result;
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

Result<Bound> bound(const Counts& counts, const Model& model) {
  std::map<std::string, double> units;
  std::map<std::string, std::string> counted_as;
  std::vector<std::string> without_rate;
  std::map<std::string, const Entry*> used;  // by unit, the first of each
  const auto has_rate = [](const Entry& e) { return e.unit == "lanes/clk/SM" && e.value; };
  for (const auto& [name, count] : counts) {
    const Entry* entry = model.find(name);
    if (entry == nullptr) {
      const auto first = std::find_if(model.entries.begin(), model.entries.end(),
                                      [&, n = name](const Entry& e) { return has_rate(e) && is(e.opcode, n); });
      if (first != model.entries.end()) {
        entry = &*first;
        counted_as[name] = entry->name;
      }
    }
    if (entry == nullptr) {
      for (const Entry& e : model.entries) {
        if (has_rate(e) && !e.opcode.empty() && is(name, e.opcode) &&
            (entry == nullptr || e.opcode.size() > entry->opcode.size()))
          entry = &e;
      }
      if (entry != nullptr) counted_as[name] = entry->name;
    }
    if (entry == nullptr || !has_rate(*entry)) {
      without_rate.push_back(name);
      units["issue"] += count;
      if (without_rate.size() < counts.size()) continue;
      std::set<std::string> names;
      for (const Entry& other : model.entries) {
        if (has_rate(other)) names.insert(other.name);
      }
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("'{}' has no rate in {}; there are {}", name, model.name, fmt::join(names, " ")), ""};
    }
    const std::string& unit = entry->group.empty() ? entry->name : entry->group;
    units[unit] += count * kLanesOfIssue / *entry->value;
    if (count > 0) used.emplace(unit, entry);
    units["issue"] += count;
  }
  for (const auto& [name, cycles] : units) {
    if (!std::isfinite(cycles))
      return Error{ErrorCode::kInvalidArgument, fmt::format("the cycles of {} are more than a number holds", name),
                   model.name};
  }
  Bound result = from_units(std::move(units));
  result.without_rate = std::move(without_rate);
  for (auto a = used.begin(); a != used.end(); ++a) {
    for (auto b = std::next(a); b != used.end(); ++b) {
      if (!are_apart(model, a->second, b->second)) result.sharing_unknown.push_back(a->first + ", " + b->first);
    }
  }
  result.counted_as = std::move(counted_as);
  return result;
}

}  // namespace pinch::probe
