// pinch trace on a page.
#include <fmt/core.h>

#include <algorithm>

#include "workbench/report/sections.h"
#include "workbench/trace/report.h"
#include "workbench/trace/timeline.h"

namespace pinch::report {

using nlohmann::ordered_json;

namespace {

constexpr int kSteps = 12;  // of the critical role, in the window that is drawn

Figure roles_figure(const ordered_json& document) {
  Figure figure{
      "Roles",
      "Shares of the time of the threads or warps that have the role, in the steady state; the rest is outside "
      "its steps.",
      Bars{},
      {},
      {},
      {{"role", "threads", "steps", "period", "busy %", "waits", "blamed %"}, {}}};
  figure.bars->unit = "percent of the role's time";
  const std::string unit = text_of(document.at("unit"));
  for (const auto& role : document.at("roles")) {
    if (role.at("steps") == 0) continue;
    const std::string name = text_of(role.at("name"));
    std::string waits;
    figure.bars->list.push_back({name + " busy",
                                 document.at("critical_role") == name ? "best" : "other",
                                 100 * role.at("busy").get<double>(),
                                 {},
                                 {}});
    for (const auto& [wait, share] : role.at("waits").items()) {
      const double percent = 100 * share.get<double>();
      figure.bars->list.push_back({fmt::format("{} waits: {}", name, wait), "headroom", percent, {}, {}});
      waits += fmt::format("{}{} {:.1f}%", waits.empty() ? "" : ", ", wait, percent);
    }
    figure.table.rows.push_back({name, text_of(role.at("tracks")), text_of(role.at("steps")),
                                 fmt::format("{:.0f} {}", role.at("period_median").get<double>(), unit),
                                 fmt::format("{:.1f}", 100 * role.at("busy").get<double>()), waits,
                                 fmt::format("{:.1f}", 100 * role.at("blamed").get<double>())});
  }
  return figure;
}

Figure timeline_figure(const trace::Timeline& timeline) {
  Lanes lanes;
  lanes.unit = "us after the trace began";
  lanes.begin = timeline.begin_ns * 1e-3;
  lanes.end = timeline.end_ns * 1e-3;
  lanes.legend = timeline.roles;
  lanes.legend.emplace_back("a wait");
  Table table{{"thread", "what", "from us", "to us"}, {}};
  for (const trace::Timeline::Span& span : timeline.spans) {
    const std::string& label = timeline.lanes[span.lane];
    const double from = span.begin_ns * 1e-3, to = span.end_ns * 1e-3;
    const bool waits = span.kind == trace::Timeline::Kind::kWait;
    lanes.spans.push_back({lanes.lane(label), from, to, waits ? timeline.roles.size() : span.role});
    table.rows.push_back({label, span.what, fmt::format("{:.3f}", from), fmt::format("{:.3f}", to)});
  }
  return {"Timeline",
          fmt::format("Group {}, {}{}.", timeline.group,
                      timeline.steady ? "within its steady state" : "no steady state was found",
                      timeline.cut ? ", cut: too much to draw" : ""),
          {},
          {},
          std::move(lanes),
          std::move(table)};
}

}  // namespace

Section trace_section(const ordered_json& document) {
  Section section{"Trace: " + text_of(document.at("program")), {}, {}};
  const auto& inflation = document.at("inflation");
  const std::string level = text_of(document.at("level"));
  section.paragraphs.push_back(
      fmt::format("{} has most to do. A trace explains and ranks nothing; {}.",
                  document.at("critical_role") == "" ? "No role" : text_of(document.at("critical_role")),
                  inflation.contains(level) && inflation.at(level).is_number()
                      ? fmt::format("this one made the program {:.1f}% slower", 100 * inflation.at(level).get<double>())
                      : "what this one cost is not known"));
  section.figures.push_back(roles_figure(document));
  return section;
}

Result<Section> trace_section(const std::string& path) {
  PINCH_ASSIGN(file, trace::TraceFile::open(path));
  PINCH_ASSIGN(analysis, trace::analyse(file));
  Section section = trace_section(trace::to_json(analysis, {}));
  const trace::Timeline timeline = trace::timeline_of(file, analysis, kSteps);
  if (!timeline.spans.empty()) section.figures.push_back(timeline_figure(timeline));
  return section;
}

}  // namespace pinch::report
