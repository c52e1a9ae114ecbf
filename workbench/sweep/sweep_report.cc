#include "workbench/sweep/sweep_report.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "workbench/measure/statistics.h"

namespace pinch::sweep {
namespace {

using measure::Verdict;
using nlohmann::ordered_json;

ordered_json json_of(const Value& value) {
  return std::visit([](const auto& held) { return ordered_json(held); }, value);
}

ordered_json knobs_json(const Subject& subject, const Choice& choice) {
  ordered_json knobs = ordered_json::object();
  for (std::size_t i = 0; i < choice.size(); ++i)
    knobs[subject.knobs[i].name] = json_of(subject.knobs[i].values[choice[i]]);
  return knobs;
}

ordered_json problem_json(const Subject& subject, const Values& problem) {
  ordered_json axes = ordered_json::object();
  for (const Axis& axis : subject.problem) axes[axis.name] = json_of(problem.find(axis.name)->second);
  return axes;
}

ordered_json number_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json point_json(const Subject& subject, const Values& problem, const Measured& point) {
  const auto metric = point.metric();
  ordered_json row{{"problem", problem_json(subject, problem)},
                   {"knobs", knobs_json(subject, point.choice)},
                   {"verdict", measure::to_string(point.verdict)},
                   {"metric", metric ? ordered_json(*metric) : ordered_json(nullptr)},
                   {"samples", point.samples},
                   {"detail", point.detail}};
  if (!point.err.empty()) row["stderr"] = point.err;
  if (!point.device.empty()) row["device"] = point.device;
  if (point.against_default > 0) row["against_default"] = point.against_default;
  if (!point.outputs.empty()) row["outputs"] = point.outputs;
  return row;
}

std::string refusal(const Rule& rule) {
  return fmt::format("{} '{}': {}", rule.contract ? "contract" : "constraint", rule.id, rule.reason);
}

ordered_json best_json(const Subject& subject, const ProblemResult& problem) {
  if (!problem.best) return nullptr;
  const Measured& best = problem.points[*problem.best];
  return {{"knobs", knobs_json(subject, best.choice)}, {"metric", *best.metric()}};
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string_view t4_invalidity(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "correct";
    case Verdict::kIllegal:
      return "constraints";
    case Verdict::kCompileFailed:
      return "compile";
    case Verdict::kTimeout:
      return "timeout";
    case Verdict::kWrong:
    case Verdict::kUnstable:
      return "correctness";
    default:
      return "runtime";
  }
}

}  // namespace

std::size_t Report::failed() const {
  std::size_t count = 0;
  for (const ProblemResult& problem : problems) {
    for (const Measured& point : problem.points) {
      count += point.verdict != Verdict::kOk && point.verdict != Verdict::kIllegal ? 1 : 0;
    }
  }
  return count;
}

bool Report::interrupted() const {
  return std::any_of(problems.begin(), problems.end(), [](const ProblemResult& each) { return each.interrupted; });
}

ordered_json to_json(const Report& report) {
  const Subject& subject = *report.subject;
  ordered_json document{{"subject", subject.name},
                        {"file", subject.file},
                        {"key", report.key},
                        {"database", report.database},
                        {"strategy", report.strategy},
                        {"seed", report.seed},
                        {"repeats", report.repeats},
                        {"metric",
                         {{"name", subject.metric.name},
                          {"unit", subject.metric.unit},
                          {"better", subject.metric.lower_is_better ? "lower" : "higher"}}}};
  if (!report.device.empty()) document["device"] = report.device;
  if (!report.environment.is_null()) {
    document["environment"] = report.environment;
    document["reused_trials"] = report.reused;
    document["starts"] = report.starts;
  }
  auto points = ordered_json::array(), problems = ordered_json::array(), findings = ordered_json::array();
  for (const ProblemResult& problem : report.problems) {
    for (const Measured& point : problem.points) points.push_back(point_json(subject, problem.problem, point));
    for (const Refused& refused : problem.refused) {
      points.push_back({{"problem", problem_json(subject, problem.problem)},
                        {"knobs", knobs_json(subject, refused.choice)},
                        {"verdict", "illegal"},
                        {"metric", nullptr},
                        {"samples", ordered_json::array()},
                        {"detail", refusal(*refused.rule)},
                        {"rule", refused.rule->id}});
    }
    auto excluded = ordered_json::array();
    for (const Excluded& each : problem.excluded) {
      excluded.push_back({{"rule", each.rule->id},
                          {"contract", each.rule->contract},
                          {"reason", each.rule->reason},
                          {"combinations", each.count}});
    }
    auto elsewhere = ordered_json::array();
    for (const Measured& each : problem.elsewhere) elsewhere.push_back(point_json(subject, problem.problem, each));
    problems.push_back(
        {{"problem", problem_json(subject, problem.problem)},
         {"combinations", problem.combinations},
         {"legal", problem.legal},
         {"run", problem.points.size()},
         {"not_run", problem.not_run},
         {"best", best_json(subject, problem)},
         {"confirmed", problem.confirmed},
         {"regret_of_default", problem.regret > 0 ? ordered_json(problem.regret) : ordered_json(nullptr)},
         {"aa_spread", number_or_null(problem.aa_spread)},
         {"band", problem.band},
         {"default_elsewhere", elsewhere},
         {"interrupted", problem.interrupted},
         {"excluded", excluded}});
    for (const Finding& finding : problem.findings) {
      ordered_json row{{"kind", finding.kind}, {"knob", finding.knob}, {"detail", finding.detail}};
      if (!subject.problem.empty()) row["problem"] = problem_json(subject, problem.problem);
      findings.push_back(std::move(row));
    }
  }
  for (const std::string& warning : report.warnings) findings.push_back({{"kind", "warning"}, {"detail", warning}});
  for (const Demonstration& shown : report.demonstrations) {
    findings.push_back({{"kind", "contract_broken"},
                        {"rule", shown.rule->id},
                        {"reason", shown.rule->reason},
                        {"knobs", knobs_json(subject, shown.point.choice)},
                        {"verdict", measure::to_string(shown.point.verdict)},
                        {"detail", shown.point.detail}});
  }
  auto inputs = ordered_json::array();
  for (const check::SavedInput& input : report.inputs) {
    inputs.push_back({{"name", input.name}, {"path", input.path}, {"sha256", input.sha256}});
  }
  document["points"] = std::move(points);
  document["best"] = report.problems.size() == 1 ? best_json(subject, report.problems.front()) : ordered_json(nullptr);
  document["findings"] = std::move(findings);
  document["problems"] = std::move(problems);
  document["failed"] = report.failed();
  document["inputs"] = std::move(inputs);
  return document;
}

std::string to_text(const Report& report) {
  const Subject& subject = *report.subject;
  std::string text;
  for (const ProblemResult& problem : report.problems) {
    text += fmt::format("{}{}{}: {} legal of {:.0f} combinations, {} run\n", subject.name,
                        problem.text.empty() ? "" : " at ", problem.text, problem.legal, problem.combinations,
                        problem.points.size());
    std::vector<const Measured*> rows;
    for (const Measured& point : problem.points) rows.push_back(&point);
    for (const Measured& point : problem.elsewhere) rows.push_back(&point);
    const auto cost = [&](const Measured* point) {
      const auto metric = point->metric();
      if (!metric) return std::numeric_limits<double>::infinity();
      if (point->against_default > 0) return point->against_default;
      return subject.metric.lower_is_better ? *metric : 1 / *metric;
    };
    std::stable_sort(rows.begin(), rows.end(), [&](const Measured* a, const Measured* b) { return cost(a) < cost(b); });
    std::size_t width = 5;
    for (const Measured* row : rows) width = std::max(width, std::min<std::size_t>(row->text.size(), 70));
    constexpr std::size_t kShown = 40;
    for (std::size_t i = 0; i < rows.size() && i < kShown; ++i) {
      const Measured& row = *rows[i];
      const auto metric = row.metric();
      const measure::Summary summary = measure::summarize(row.samples);
      text +=
          fmt::format("  {:<{}}  {}{:<14} {}{}\n", row.text, width,
                      row.device.empty() ? "" : fmt::format("on {:<4} ", row.device), measure::to_string(row.verdict),
                      metric ? fmt::format("{:>10.4g} {} ({:.4g} to {:.4g})  {}", *metric, subject.metric.unit,
                                           summary.q1, summary.q3, row.detail)
                             : row.detail,
                      problem.best && &row == &problem.points[*problem.best] ? "  <- best" : "");
    }
    if (rows.size() > kShown) text += fmt::format("  and {} more\n", rows.size() - kShown);
    for (const Excluded& each : problem.excluded) {
      text += fmt::format("  refused   {:.0f} by {}\n", each.count, refusal(*each.rule));
    }
    if (problem.best) {
      text += fmt::format("  best      {}{}\n", problem.points[*problem.best].text,
                          problem.confirmed ? "" : " (not confirmed by a further process)");
    } else {
      text += "  best      none: no point ended ok\n";
    }
    if (problem.regret > 0) {
      text += fmt::format(
          "  regret    {:.3f} of the default against the fastest; A/A spread {:.2f}%, ties within {:.1f}%\n",
          problem.regret, 100 * problem.aa_spread, 100 * problem.band);
    }
    for (const Finding& finding : problem.findings) {
      text += fmt::format("  {} {}: {}\n", finding.kind, finding.knob, finding.detail);
    }
    if (!problem.elsewhere.empty()) text += "  devices   compared by how their points stand to the default on each\n";
    if (problem.not_run > 0) text += fmt::format("  not run   {} legal points\n", problem.not_run);
    if (problem.interrupted)
      text += "  interrupted: what is said above may change; the same command goes on from here\n";
  }
  for (const std::string& warning : report.warnings) text += "warning: " + warning + '\n';
  for (const Demonstration& shown : report.demonstrations) {
    text += fmt::format("contract '{}' broken by {}: {} {}\n", shown.rule->id, shown.point.text,
                        measure::to_string(shown.point.verdict), shown.point.detail);
  }
  if (const std::size_t failed = report.failed(); failed > 0) text += fmt::format("{} points did not end ok\n", failed);
  return text;
}

std::string to_csv(const Report& report) {
  const Subject& subject = *report.subject;
  std::string text;
  for (const Axis& axis : subject.problem) text += csv_field(axis.name) + ',';
  for (const Knob& knob : subject.knobs) text += csv_field(knob.name) + ',';
  text += "verdict,metric,samples,device,detail\n";
  const auto begin_row = [&](const Values& problem, const Choice& choice) {
    for (const Axis& axis : subject.problem) text += csv_field(to_string(problem.find(axis.name)->second)) + ',';
    for (std::size_t i = 0; i < choice.size(); ++i)
      text += csv_field(to_string(subject.knobs[i].values[choice[i]])) + ',';
  };
  const auto add = [&](const Values& problem, const Measured& point) {
    begin_row(problem, point.choice);
    const auto metric = point.metric();
    text += fmt::format("{},{},{},{},{}\n", measure::to_string(point.verdict), metric ? fmt::format("{}", *metric) : "",
                        fmt::join(point.samples, " "), csv_field(point.device), csv_field(point.detail));
  };
  for (const ProblemResult& problem : report.problems) {
    for (const Measured& point : problem.points) add(problem.problem, point);
    for (const Measured& point : problem.elsewhere) add(problem.problem, point);
    for (const Refused& refused : problem.refused) {
      begin_row(problem.problem, refused.choice);
      text += fmt::format("illegal,,,,{}\n", csv_field(refusal(*refused.rule)));
    }
  }
  return text;
}

ordered_json to_t4(const Report& report) {
  const Subject& subject = *report.subject;
  auto results = ordered_json::array();
  std::tm now = {};
  const std::time_t seconds = std::time(nullptr);
  ::gmtime_r(&seconds, &now);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &now);
  const auto add = [&](const Values& problem, const Choice& choice, Verdict verdict, const Measured* point) {
    ordered_json configuration = problem_json(subject, problem);
    configuration.update(knobs_json(subject, choice));
    auto measurements = ordered_json::array();
    if (point != nullptr && point->metric()) {
      measurements.push_back(
          {{"name", subject.metric.name}, {"value", *point->metric()}, {"unit", subject.metric.unit}});
    }
    results.push_back({{"timestamp", stamp},
                       {"configuration", configuration},
                       {"times", {{"runtimes", point != nullptr ? point->samples : std::vector<double>{}}}},
                       {"invalidity", t4_invalidity(verdict)},
                       {"correctness", verdict == Verdict::kOk ? 1 : 0},
                       {"measurements", measurements},
                       {"objectives", {subject.metric.name}}});
  };
  for (const ProblemResult& problem : report.problems) {
    for (const Measured& point : problem.points) add(problem.problem, point.choice, point.verdict, &point);
    for (const Refused& refused : problem.refused) add(problem.problem, refused.choice, Verdict::kIllegal, nullptr);
  }
  return {{"schema_version", "1.0.0"}, {"results", results}};
}

}  // namespace pinch::sweep
