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

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || !std::isfinite(value))
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
  const auto source = std::find_if(moved.begin(), moved.end(), [&](const auto& c) { return c.first == from; });
  if (source == moved.end()) return wrong("FROM is not among the counts");
  const double amount = source->second * *percent / 100;
  source->second -= amount;
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
  for (const auto& [name, count] : counts) {
    sass::Instruction instruction;
    instruction.mnemonic = name;
    const sass::Cost cost = machine.cost(instruction);
    if (!cost.listed)
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format(
              "'{}' has no row in the model {}; `pinch sass` names instructions, data/machines/{}.json lists them",
              name, machine.name(), machine.name()),
          ""};
    for (int p = 0; p < sass::kPipes; ++p)
      units[std::string(sass::name_of(static_cast<sass::Pipe>(p)))] +=
          count * static_cast<double>(cost.uses[static_cast<std::size_t>(p)]);
  }
  return from_units(std::move(units));
}

Result<Bound> bound_of_loop(std::string_view json, const std::string& where, const std::string& kernel, int loop) {
  const auto document = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  std::set<std::string> names;
  try {
    for (const auto& entry : document.at("kernels")) {
      const auto& loops = entry.at("loops");
      const auto name = entry.at("name").get<std::string>();
      names.insert(fmt::format("{} ({} loops)", name, loops.size()));
      if (name != kernel || loop < 0 || static_cast<std::size_t>(loop) >= loops.size()) continue;
      return from_units(loops.at(static_cast<std::size_t>(loop)).at("pipes").get<std::map<std::string, double>>());
    }
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorCode::kCorrupt, fmt::format("no document of `pinch sass --json`: {}", error.what()), where};
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("no loop {} of a kernel '{}'; there are {}", loop, kernel, fmt::join(names, ", ")), where};
}

Result<Bound> bound(const Counts& counts, const Model& model) {
  std::map<std::string, double> units;
  for (const auto& [name, count] : counts) {
    const Entry* entry = model.find(name);
    for (const Entry& other : model.entries) {
      if (entry == nullptr && other.opcode == name && other.unit == "lanes/clk/SM" && other.value) entry = &other;
    }
    if (entry == nullptr || entry->unit != "lanes/clk/SM" || !entry->value) {
      std::set<std::string> names;
      for (const Entry& other : model.entries) {
        if (other.unit == "lanes/clk/SM" && other.value) names.insert(other.name);
      }
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("'{}' has no rate in {}; there are {}", name, model.name, fmt::join(names, " ")), ""};
    }
    units[entry->group.empty() ? entry->name : entry->group] += count * kLanesOfIssue / *entry->value;
    units["issue"] += count;
  }
  return from_units(std::move(units));
}

}  // namespace pinch::probe
