#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "workbench/measure/statistics.h"
#include "workbench/report/page.h"

namespace pinch::report {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kBars = 24;  // of a chart; its table has all

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

Table facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  Table table{{"what", "value"}, {}};
  for (const auto& [name, value] : rows) table.rows.push_back({name, value});
  return table;
}

Figure ladder_figure(const ordered_json& findings) {
  Figure figure{"Ladder",
                "What each class of fix can bring at most, in percent of the default's time.",
                Bars{},
                std::nullopt,
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

// --- pinch tune gemm, attention

// What the fastest tactic reaches of the machine's own rates, which were measured in the same run.
std::optional<Figure> roofline_figure(const ordered_json& findings) {
  for (const auto& finding : findings) {
    if (finding.at("rung") != "throughput" || !finding.at("evidence").contains("flops")) continue;
    const auto& evidence = finding.at("evidence");
    const double ns = evidence.at("time").get<double>();
    Figure figure{
        "Throughput against the machine", "", Bars{}, std::nullopt, {{"unit", "reached", "at most", "percent"}, {}}};
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
  Figure figure{
      "Tactics", "", Bars{}, std::nullopt, {{"tactic", "us", "q1", "q3", "% of bound", "relative L2", "verdict"}, {}}};
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
  Figure provenance{"Provenance", "", std::nullopt, std::nullopt, Table{{"what", "value"}, {}}};
  for (const char* part : {"machine", "provenance"}) {
    for (const auto& [key, value] : document.at(part).items()) provenance.table.rows.push_back({key, text_of(value)});
  }
  section.figures.push_back(std::move(provenance));
  return section;
}

// --- pinch sweep, pinch tune SUBJECT.toml

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
  Figure figure{"Settings",
                "",
                Bars{},
                std::nullopt,
                {{"setting", text_of(metric.at("unit")), "q1", "q3", "runs", "verdict", "detail"}, {}}};
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

// The two knobs with most values, each pair at its best over the others.
std::optional<Figure> heat_figure(const ordered_json& document, const std::vector<SweepPoint>& points) {
  std::map<std::string, std::vector<ordered_json>> values;
  for (const SweepPoint& point : points) {
    for (const auto& [knob, value] : point.row->at("knobs").items()) {
      auto& list = values[knob];
      if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
    }
  }
  std::vector<std::string> knobs;
  for (const auto& [knob, value] : points.front().row->at("knobs").items()) {
    if (values[knob].size() > 1) knobs.push_back(knob);
  }
  if (knobs.size() < 2) return std::nullopt;
  std::stable_sort(knobs.begin(), knobs.end(),
                   [&](const auto& a, const auto& b) { return values[a].size() > values[b].size(); });
  const bool lower = document.at("metric").at("better") == "lower";
  HeatMap heat;
  heat.down = knobs[0];
  heat.across = knobs[1];
  for (const auto& value : values[heat.across]) heat.columns.push_back(text_of(value));
  double best = HUGE_VAL, worst = 0;
  std::vector<std::vector<double>> cost;
  for (const auto& row_value : values[heat.down]) {
    heat.rows.push_back(text_of(row_value));
    heat.cells.emplace_back(heat.columns.size());
    cost.emplace_back(heat.columns.size(), HUGE_VAL);
    for (std::size_t c = 0; c < heat.columns.size(); ++c) {
      HeatMap::Cell& cell = heat.cells.back()[c];
      for (const SweepPoint& point : points) {
        const auto& at = point.row->at("knobs");
        if (at.at(heat.down) != row_value || at.at(heat.across) != values[heat.across][c]) continue;
        cell.is_default = cell.is_default || point.is_default;
        cell.is_best = cell.is_best || point.is_best;
        if (!point.metric || *point.metric <= 0) continue;
        const double each = lower ? *point.metric : 1 / *point.metric;
        if (each >= cost.back()[c]) continue;
        cost.back()[c] = each;
        cell.text = fmt::format("{:.4g}", *point.metric);
      }
      if (cell.text.empty()) continue;
      best = std::min(best, cost.back()[c]);
      worst = std::max(worst, cost.back()[c]);
    }
  }
  for (std::size_t r = 0; r < heat.rows.size(); ++r) {
    for (std::size_t c = 0; c < heat.columns.size(); ++c) {
      if (!heat.cells[r][c].text.empty() && worst > best)
        heat.cells[r][c].shade = std::log(cost[r][c] / best) / std::log(worst / best);
    }
  }
  return Figure{fmt::format("{} by {}", heat.down, heat.across),
                fmt::format("{}, each pair at its best over the other knobs; the darker the worse. Framed: the pick; "
                            "dashed: the default.",
                            text_of(document.at("metric").at("name"))),
                std::nullopt,
                heat,
                {}};
}

void add_sweep(const ordered_json& document, Page& page) {
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
    }
    const std::vector<SweepPoint> points = points_of(document, problem);
    if (!points.empty()) {
      section.figures.push_back(points_figure(document, points));
      if (auto heat = heat_figure(document, points)) section.figures.push_back(std::move(*heat));
    }
    if (document.contains("environment")) {
      Figure provenance{"Provenance", "", std::nullopt, std::nullopt,
                        facts({{"file", text_of(document.at("file"))}, {"key", text_of(document.at("key"))}})};
      for (const auto& [key, value] : document.at("environment").items())
        provenance.table.rows.push_back({key, text_of(value)});
      section.figures.push_back(std::move(provenance));
    }
    page.sections.push_back(std::move(section));
  }
}

// --- pinch check flake

Section flake_section(const ordered_json& document, const std::string& name) {
  const double runs = document.at("runs").get<double>(), differing = document.at("differing").get<double>();
  const double upper = document.at("rate_upper_95").get<double>();
  Section section{"Flakes: " + name, {}, {}};
  const auto& missed = document.at("missed_probability");
  section.paragraphs.push_back(
      fmt::format("{}: {:.0f} of {:.0f} runs differ; the rate is below {:.3g} with 95% confidence, and a fault of {} "
                  "is missed {:.0f}% of the time.",
                  text_of(document.at("verdict")), differing, runs, upper, text_of(missed.at("rate")),
                  100 * missed.at("p").get<double>()));
  Figure figure{"Rate of other results",
                "Seen, and the one-sided 95% bound.",
                Bars{},
                std::nullopt,
                {{"ending", "outputs", "runs"}, {}}};
  figure.bars->unit = "of all runs";
  figure.bars->list.push_back(
      {"differing", differing > 0 ? "headroom" : "quiet", differing / runs, differing / runs, upper});
  for (const auto& cluster : document.at("clusters"))
    figure.table.rows.push_back(
        {text_of(cluster.at("ending")), text_of(cluster.at("outputs")), text_of(cluster.at("runs"))});
  section.figures.push_back(std::move(figure));
  return section;
}

Result<void> add(const ordered_json& json, const std::string& name, Page& page) {
  if (json.is_array()) {
    for (const auto& each : json) PINCH_TRY(add(each, name, page));
  } else if (json.contains("picks")) {
    page.sections.push_back(tune_section(json));
  } else if (json.contains("subject") && json.contains("problems")) {
    add_sweep(json, page);
  } else if (json.contains("clusters")) {
    page.sections.push_back(flake_section(json, name));
  } else {
    return Error{ErrorCode::kInvalidArgument, "is no document of pinch tune, sweep or check flake (--json FILE)", name};
  }
  return {};
}

}  // namespace

Result<Page> page_of(const std::vector<Document>& documents) {
  Page page;
  page.title = "Pinch report";
  for (const Document& document : documents) {
    try {
      PINCH_TRY(add(document.json, document.name, page));
    } catch (const nlohmann::json::exception& error) {
      return Error{ErrorCode::kCorrupt, fmt::format("not as pinch writes it: {}", error.what()), document.name};
    }
  }
  return page;
}

}  // namespace pinch::report
