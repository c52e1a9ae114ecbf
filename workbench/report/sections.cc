#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "workbench/report/sections.h"

namespace pinch::report {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return value.is_null() ? "-" : value.dump();
}

std::string pairs_text(const ordered_json& object) {
  std::string text;
  for (const auto& [key, value] : object.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, text_of(value));
  return text;
}

std::optional<double> number_of(const ordered_json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

Figure table_figure(std::string title, std::string about, Table table) {
  return {std::move(title), std::move(about), {}, {}, {}, std::move(table)};
}

Table facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  Table table{{"what", "value"}, {}};
  for (const auto& [name, value] : rows) table.rows.push_back({name, value});
  return table;
}

Figure ladder_figure(const ordered_json& findings) {
  Figure figure{"Ladder", "What each class of fix can bring at most, in percent of the default's time.", Bars{}, {}, {},
                {}};
  figure.bars->unit = "percent of the default's time, at most";
  figure.table.columns = {"rung", "verdict", "at most %", "why", "command"};
  for (const auto& finding : findings) {
    const auto bound = number_of(finding.at("bound_percent"));
    const std::string rung = text_of(finding.at("rung")), verdict = text_of(finding.at("verdict"));
    figure.bars->list.push_back({fmt::format("{}: {}", rung, verdict), verdict == "headroom" ? "headroom" : "quiet",
                                 verdict == "headroom" ? bound.value_or(0) : 0, std::nullopt, std::nullopt});
    figure.table.rows.push_back({rung, verdict, bound ? fmt::format("{:.1f}", *bound) : "-", text_of(finding.at("why")),
                                 text_of(finding.at("command"))});
  }
  return figure;
}

std::string next_text(const ordered_json& next) {
  if (next.is_null()) return "No rung found headroom.";
  return fmt::format("Next: {}, which can bring {:.1f}% at most.", text_of(next.at("rung")),
                     next.at("bound_percent").get<double>());
}

std::string kind_of(bool is_best, bool is_default) {
  return is_best ? "best" : is_default ? "default" : "other";
}

namespace {

// Ascending, where all are numbers, also as text.
void sort_numbers(std::vector<ordered_json>& values) {
  std::vector<std::pair<double, ordered_json>> numbers;
  for (const ordered_json& value : values) {
    const std::string text = text_of(value);
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') return;
    numbers.emplace_back(number, value);
  }
  std::stable_sort(numbers.begin(), numbers.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = numbers[i].second;
}

}  // namespace

std::optional<Figure> heat_figure(const std::vector<HeatPoint>& points, const std::string& what) {
  std::vector<std::string> knobs;  // in the order of the settings
  std::map<std::string, std::vector<ordered_json>> values;
  for (const HeatPoint& point : points) {
    for (const auto& [knob, value] : point.knobs->items()) {
      auto& list = values[knob];
      if (list.empty()) knobs.push_back(knob);
      if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
    }
  }
  for (auto& [knob, list] : values) sort_numbers(list);
  std::erase_if(knobs, [&](const std::string& knob) { return values[knob].size() < 2; });
  if (knobs.size() < 2) return std::nullopt;
  std::stable_sort(knobs.begin(), knobs.end(),
                   [&](const auto& a, const auto& b) { return values[a].size() > values[b].size(); });
  HeatMap heat;
  heat.down = knobs[0];
  heat.across = knobs[1];
  const auto place_of = [&](const std::string& knob, const HeatPoint& point) -> std::optional<std::size_t> {
    const auto value = point.knobs->find(knob);
    if (value == point.knobs->end()) return std::nullopt;  // a knob of another kernel
    return static_cast<std::size_t>(std::find(values[knob].begin(), values[knob].end(), *value) - values[knob].begin());
  };
  for (const auto& value : values[heat.across]) heat.columns.push_back(text_of(value));
  for (const auto& value : values[heat.down]) heat.rows.push_back(text_of(value));
  heat.cells.assign(heat.rows.size(), std::vector<HeatMap::Cell>(heat.columns.size()));
  std::vector<std::vector<double>> cost(heat.rows.size(), std::vector<double>(heat.columns.size(), HUGE_VAL));
  for (const HeatPoint& point : points) {
    const auto row = place_of(heat.down, point), column = place_of(heat.across, point);
    if (!row || !column) continue;
    HeatMap::Cell& cell = heat.cells[*row][*column];
    cell.is_default = cell.is_default || point.is_default;
    cell.is_best = cell.is_best || point.is_best;
    if (!point.cost || *point.cost <= 0 || *point.cost >= cost[*row][*column]) continue;
    cost[*row][*column] = *point.cost;
    cell.text = point.text;
  }
  double best = HUGE_VAL, worst = 0;
  for (const auto& row : cost) {
    for (const double each : row) {
      best = std::min(best, each);
      if (each < HUGE_VAL) worst = std::max(worst, each);
    }
  }
  for (std::size_t r = 0; r < heat.rows.size(); ++r) {
    for (std::size_t c = 0; c < heat.columns.size(); ++c) {
      if (cost[r][c] < HUGE_VAL && worst > best)
        heat.cells[r][c].shade = std::log(cost[r][c] / best) / std::log(worst / best);
    }
  }
  return Figure{fmt::format("{} by {}", heat.down, heat.across),
                fmt::format("{}, each pair at its best over the other knobs; the darker the worse. Framed: the pick; "
                            "dashed: the default.",
                            what),
                {},
                std::move(heat),
                {},
                {}};
}

std::vector<Figure> code_figures(const ordered_json& findings) {
  const auto read = std::find_if(findings.begin(), findings.end(),
                                 [](const ordered_json& finding) { return finding.at("evidence").contains("order"); });
  if (read == findings.end()) return {};
  const ordered_json& evidence = read->at("evidence");
  const double simulated = evidence.at("simulated_cycles").get<double>();
  const std::string loop =
      fmt::format("{}, bytes {} to {}, {}{} warps of a sub-partition: {:.0f} cycles simulated, at least {:.0f}",
                  text_of(evidence.at("kernel")), text_of(evidence.at("loop").at(0)),
                  text_of(evidence.at("loop").at(1)), text_of(evidence.at("role")),
                  evidence.at("role") == "" ? text_of(evidence.at("warps")) : " of " + text_of(evidence.at("warps")),
                  simulated, evidence.at("least_cycles").get<double>());
  Figure units{"Units of the hot loop", loop + ". The dashed rule is a unit that is never free.", Bars{}, {}, {}, {}};
  units.bars->unit = "percent of the simulated time";
  units.bars->rule = 100;
  units.table.columns = {"unit", "percent"};
  for (const auto& [pipe, share] : evidence.at("pipes").items()) {
    const double percent = 100 * share.get<double>();
    units.bars->list.push_back({pipe, "other", percent, {}, {}});
    units.table.rows.push_back({pipe, fmt::format("{:.1f}", percent)});
  }

  Lanes lanes;
  lanes.unit = "instructions of the loop, in their order";
  Table table{{"from", "to", "unit"}, {}};
  std::size_t at = 0;
  for (const auto& run : evidence.at("order")) {
    const std::string pipe = run.at(0).get<std::string>();
    const auto count = run.at(1).get<std::size_t>();
    const std::size_t lane = lanes.lane(pipe);
    lanes.spans.push_back({lane, static_cast<double>(at), static_cast<double>(at + count), 0});
    table.rows.push_back({std::to_string(at), std::to_string(at + count), pipe});
    at += count;
  }
  lanes.end = static_cast<double>(at);
  lanes.legend = {"a run of one unit"};
  Figure strip{"Interleaving of the hot loop",
               fmt::format("{} instructions in {} runs, each by the unit that it takes longest.", at,
                           evidence.at("order").size()),
               {},
               {},
               std::move(lanes),
               std::move(table)};
  std::vector<Figure> figures;
  figures.push_back(std::move(units));
  figures.push_back(std::move(strip));
  return figures;
}

}  // namespace pinch::report
