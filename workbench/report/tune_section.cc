// pinch tune gemm and attention on a page.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "workbench/report/sections.h"

namespace pinch::report {

using nlohmann::ordered_json;

namespace {

// What the fastest tactic reaches of the machine's own rates, which were measured in the same run.
std::optional<Figure> roofline_figure(const ordered_json& findings) {
  for (const auto& finding : findings) {
    if (finding.at("rung") != "throughput" || !finding.at("evidence").contains("flops")) continue;
    const auto& evidence = finding.at("evidence");
    const double ns = evidence.at("time").get<double>();
    Figure figure{
        "Throughput against the machine", "", Bars{}, {}, {}, {{"unit", "reached", "at most", "percent"}, {}}};
    figure.bars->unit = "percent of the rate measured in the same run";
    figure.bars->rule = 100;
    figure.about = "The fastest tactic; the dashed rule is the machine's rate.";
    const auto add = [&](const char* name, const char* unit, double amount, double most) {
      const double reached = amount / ns, percent = most > 0 ? 100 * reached / most : 0;
      figure.bars->list.push_back({name, "best", percent, std::nullopt, std::nullopt});
      figure.table.rows.push_back({fmt::format("{}, {}", name, unit), fmt::format("{:.1f}", reached),
                                   fmt::format("{:.1f}", most), fmt::format("{:.1f}", percent)});
    };
    add("multiply-adds", "GFLOP/s", evidence.at("flops").get<double>(), evidence.at("gflops_at_most").get<double>());
    add("reads", "GB/s", evidence.at("bytes").get<double>(), evidence.at("gbps_at_most").get<double>());
    return figure;
  }
  return std::nullopt;
}

Figure tactics_figure(const ordered_json& document) {
  const std::string protocol = text_of(document.at("protocol"));
  const auto bound = number_of(document.at("bound_ns"));
  Figure figure{"Tactics", "", Bars{},
                {},        {}, {{"tactic", "us", "q1", "q3", "% of bound", "relative L2", "verdict"}, {}}};
  figure.bars->unit = fmt::format("us a call, {}", protocol);
  std::vector<const ordered_json*> picks;
  for (const auto& pick : document.at("picks")) picks.push_back(&pick);
  const auto key = [](const ordered_json* pick) { return number_of(pick->at("median_ns")).value_or(HUGE_VAL); };
  std::stable_sort(picks.begin(), picks.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
  std::size_t shown = 0;
  for (const ordered_json* pick : picks) {
    const std::string name = text_of(pick->at("tactic"));
    const bool is_default = pick->at("tactic") == document.at("default"),
               is_best = pick->at("tactic") == document.at("best");
    const auto median = number_of(pick->at("median_ns")), low = number_of(pick->at("q1_ns")),
               high = number_of(pick->at("q3_ns"));
    const auto us = [](const std::optional<double>& ns) {
      return ns ? fmt::format("{:.2f}", *ns / 1e3) : std::string("-");
    };
    figure.table.rows.push_back({fmt::format("{}{}{}", name, is_default ? " (default)" : "", is_best ? " (best)" : ""),
                                 us(median), us(low), us(high),
                                 median && bound ? fmt::format("{:.1f}", 100 * *bound / *median) : "-",
                                 text_of(pick->at("rel_l2")), text_of(pick->at("verdict"))});
    if (!median || (shown >= kBars && !is_default && !is_best)) continue;
    ++shown;
    figure.bars->list.push_back({name, kind_of(is_best, is_default), *median / 1e3, *low / 1e3, *high / 1e3});
  }
  figure.about =
      fmt::format("Medians with their quartiles, the fastest {} of {}; green the pick, violet the default{}.", shown,
                  picks.size(), bound ? "; the dashed rule is the bound of the unit that binds" : "");
  if (bound) figure.bars->rule = *bound / 1e3;
  return figure;
}

// Times and regrets of every tactic over its two knobs with most values.
std::optional<Figure> tactic_heat(const ordered_json& document) {
  std::vector<HeatPoint> points;
  double best = HUGE_VAL;
  for (const auto& pick : document.at("picks"))
    best = std::min(best, number_of(pick.at("median_ns")).value_or(HUGE_VAL));
  for (const auto& pick : document.at("picks")) {
    if (!pick.contains("knobs")) return std::nullopt;  // written before picks had them
    HeatPoint point;
    point.knobs = &pick.at("knobs");
    if (pick.at("verdict") == "ok") point.cost = number_of(pick.at("median_ns"));
    if (point.cost) point.text = fmt::format("{:.2f} ({:.3f})", *point.cost / 1e3, *point.cost / best);
    point.is_default = pick.at("tactic") == document.at("default");
    point.is_best = pick.at("tactic") == document.at("best");
    points.push_back(std::move(point));
  }
  return heat_figure(points,
                     fmt::format("us a call, {}, and in brackets the regret", text_of(document.at("protocol"))));
}

}  // namespace

Section tune_section(const ordered_json& document) {
  Section section;
  section.title = "Tune: " + pairs_text(document.at("problem"));
  const auto& interval = document.at("regret_interval");
  section.paragraphs.push_back(fmt::format(
      "Pick {}{}. The default costs {} of the fastest{}; ties are within {:.1f}%.", text_of(document.at("best")),
      document.at("best") == document.at("default") ? ", the default" : "", text_of(document.at("regret")),
      interval.is_array() ? fmt::format(" ({} to {})", text_of(interval.at(0)), text_of(interval.at(1))) : "",
      100 * document.at("tie_band").get<double>()));
  section.paragraphs.push_back(next_text(document.at("next")));
  section.figures.push_back(ladder_figure(document.at("findings")));
  if (auto roofline = roofline_figure(document.at("findings"))) section.figures.push_back(std::move(*roofline));
  section.figures.push_back(tactics_figure(document));
  if (auto heat = tactic_heat(document)) section.figures.push_back(std::move(*heat));
  for (Figure& figure : code_figures(document.at("findings"))) section.figures.push_back(std::move(figure));
  Figure provenance = table_figure("Provenance", "", Table{{"what", "value"}, {}});
  for (const char* part : {"machine", "provenance"}) {
    for (const auto& [key, value] : document.at(part).items()) provenance.table.rows.push_back({key, text_of(value)});
  }
  section.figures.push_back(std::move(provenance));
  return section;
}

}  // namespace pinch::report
