// pinch sweep and pinch tune SUBJECT.toml on a page.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "workbench/measure/statistics.h"
#include "workbench/report/sections.h"

namespace pinch::report {

using nlohmann::ordered_json;

namespace {

struct SweepPoint {
  const ordered_json* row = nullptr;
  std::optional<double> metric;
  bool is_default = false, is_best = false;
};

std::vector<SweepPoint> points_of(const ordered_json& document, const ordered_json& problem) {
  std::vector<SweepPoint> points;
  for (const auto& row : document.at("points")) {
    if (row.at("problem") != problem.at("problem") || row.at("verdict") == "illegal") continue;
    SweepPoint point{&row, number_of(row.at("metric")), points.empty(), false};
    point.is_best = !problem.at("best").is_null() && row.at("knobs") == problem.at("best").at("knobs");
    points.push_back(point);
  }
  return points;
}

Figure points_figure(const ordered_json& document, std::vector<SweepPoint> points) {
  const auto& metric = document.at("metric");
  const bool lower = metric.at("better") == "lower";
  Figure figure{"Settings", "", Bars{},
                {},         {}, {{"setting", text_of(metric.at("unit")), "q1", "q3", "runs", "verdict", "detail"}, {}}};
  figure.bars->unit = fmt::format("{}, {}, {} is better", text_of(metric.at("name")), text_of(metric.at("unit")),
                                  lower ? "less" : "more");
  std::stable_sort(points.begin(), points.end(), [&](const SweepPoint& a, const SweepPoint& b) {
    if (!a.metric || !b.metric) return a.metric.has_value() && !b.metric;
    return lower ? *a.metric < *b.metric : *a.metric > *b.metric;
  });
  std::size_t shown = 0;
  for (const SweepPoint& point : points) {
    const std::string name = pairs_text(point.row->at("knobs"));
    const measure::Summary summary = measure::summarize(point.row->at("samples").get<std::vector<double>>());
    const bool timed = point.metric && summary.count > 0;
    const auto cell = [&](double value) { return timed ? fmt::format("{:.4g}", value) : std::string("-"); };
    figure.table.rows.push_back(
        {fmt::format("{}{}{}", name, point.is_default ? " (default)" : "", point.is_best ? " (best)" : ""),
         cell(point.metric.value_or(0)), cell(summary.q1), cell(summary.q3), fmt::format("{}", summary.count),
         text_of(point.row->at("verdict")), text_of(point.row->at("detail"))});
    if (!timed || (shown >= kBars && !point.is_default && !point.is_best)) continue;
    ++shown;
    figure.bars->list.push_back(
        {name, kind_of(point.is_best, point.is_default), *point.metric, summary.q1, summary.q3});
  }
  figure.about = fmt::format("Medians with their quartiles, the best {} of {}; green the pick, violet the default.",
                             shown, points.size());
  return figure;
}

// The two knobs with most values, in the metric's own unit.
std::optional<Figure> settings_heat(const ordered_json& document, const std::vector<SweepPoint>& points) {
  const bool lower = document.at("metric").at("better") == "lower";
  std::vector<HeatPoint> heat;
  for (const SweepPoint& point : points) {
    HeatPoint each{&point.row->at("knobs"), {}, {}, point.is_default, point.is_best};
    if (point.metric && *point.metric > 0) {
      each.cost = lower ? *point.metric : 1 / *point.metric;
      each.text = fmt::format("{:.4g}", *point.metric);
    }
    heat.push_back(std::move(each));
  }
  return heat_figure(heat, text_of(document.at("metric").at("name")));
}

}  // namespace

std::vector<Section> sweep_sections(const ordered_json& document) {
  std::vector<Section> sections;
  const bool tuned = document.contains("next");
  for (const auto& problem : document.at("problems")) {
    Section section;
    section.title = fmt::format("{}: {}{}{}", tuned ? "Tune" : "Sweep", text_of(document.at("subject")),
                                problem.at("problem").empty() ? "" : ", ", pairs_text(problem.at("problem")));
    const auto regret = number_of(problem.at("regret_of_default"));
    section.paragraphs.push_back(
        fmt::format("{} of {:.0f} combinations are legal, {} were run. {}", problem.at("legal").get<std::size_t>(),
                    problem.at("combinations").get<double>(), problem.at("run").get<std::size_t>(),
                    regret ? fmt::format("The default costs {:.3f} of the fastest; ties are within {:.1f}%.", *regret,
                                         100 * problem.at("band").get<double>())
                           : "Nothing could be compared."));
    if (tuned) {
      section.paragraphs.push_back(next_text(document.at("next")));
      section.figures.push_back(ladder_figure(document.at("findings")));
      for (Figure& figure : code_figures(document.at("findings"))) section.figures.push_back(std::move(figure));
    }
    const std::vector<SweepPoint> points = points_of(document, problem);
    if (!points.empty()) {
      section.figures.push_back(points_figure(document, points));
      if (auto heat = settings_heat(document, points)) section.figures.push_back(std::move(*heat));
    }
    if (document.contains("environment")) {
      Figure provenance = table_figure(
          "Provenance", "", facts({{"file", text_of(document.at("file"))}, {"key", text_of(document.at("key"))}}));
      for (const auto& [key, value] : document.at("environment").items())
        provenance.table.rows.push_back({key, text_of(value)});
      section.figures.push_back(std::move(provenance));
    }
    sections.push_back(std::move(section));
  }
  return sections;
}

}  // namespace pinch::report
