#include "workbench/report/tune_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "workbench/report/findings.h"
#include "workbench/report/sizes_json.h"

namespace pinch::report {

namespace {

using ladder::bound_ns;
using ladder::TuneReport;
using measure::Protocol;
using measure::Summary;
using measure::Verdict;
using nlohmann::ordered_json;

constexpr std::size_t kRows = 16;  // of a table; --json has all

Summary summary_of(const store::Point& point, Protocol protocol) {
  return measure::summarize(accepted_ns(point.samples, protocol));
}

std::size_t taken(const store::Point& point, Protocol protocol) {
  return static_cast<std::size_t>(
      std::count_if(point.samples.begin(), point.samples.end(),
                    [&](const measure::Sample& sample) { return sample.protocol == protocol; }));
}

ordered_json time_json(const Summary& summary, double ns) {
  return summary.count > 0 ? ordered_json(ns) : ordered_json(nullptr);
}

/// Cycles of a call at the clock rate read beside each sample; null where nothing was measured.
ordered_json median_cycles(const store::Point& point, Protocol protocol) {
  std::vector<double> cycles;
  for (const measure::Sample& sample : point.samples) {
    if (sample.accepted && sample.protocol == protocol) cycles.push_back(sample.ns_per_call() * sample.clock_ghz);
  }
  const Summary summary = measure::summarize(std::move(cycles));
  return time_json(summary, summary.median);
}

ordered_json protocol_json(const store::Point& point, Protocol protocol) {
  const Summary summary = summary_of(point, protocol);
  return {{"median_ns", time_json(summary, summary.median)},
          {"q1_ns", time_json(summary, summary.q1)},
          {"q3_ns", time_json(summary, summary.q3)},
          {"median_cycles", median_cycles(point, protocol)},
          {"accepted", summary.count},
          {"taken", taken(point, protocol)}};
}

ordered_json pick_json(const store::Point& point, const TuneReport& report) {
  const measure::Policy& policy = report.policy;
  const Summary summary = summary_of(point, policy.protocols.front());
  ordered_json pick{{"tactic", point.tactic},
                    {"verdict", to_string(point.verdict)},
                    {"median_ns", time_json(summary, summary.median)},
                    {"q1_ns", time_json(summary, summary.q1)},
                    {"q3_ns", time_json(summary, summary.q3)},
                    {"samples", summary.count},
                    {"rel_l2", point.rel_l2 ? ordered_json(*point.rel_l2) : ordered_json(nullptr)},
                    {"rank", point.rank + 1},
                    {"predicted", point.predicted},
                    {"unit", point.unit},
                    {"threads", point.threads}};
  for (const Protocol protocol : policy.protocols)
    pick[std::string(to_string(protocol))] = protocol_json(point, protocol);
  if (const auto knobs = report.knobs.find(point.tactic); knobs != report.knobs.end()) pick["knobs"] = knobs->second;
  if (!point.why.empty()) pick["why"] = point.why;
  return pick;
}

ordered_json name_json(const std::string& tactic) {
  return tactic.empty() ? ordered_json(nullptr) : ordered_json(tactic);
}

ordered_json provenance_json(const TuneReport& report) {
  return {{"weights", report.work.inputs},          {"measured_at", report.measured_at},
          {"measured_by", report.version},          {"compiler", report.machine.compiler},
          {"binary", report.machine.binary},        {"policy", report.policy.text()},
          {"cold_set_bytes", report.cold_set_bytes}};
}

/// Medians of every protocol; the ranking one with its quartiles and rates.
std::string times_cells(const TuneReport& report, const store::Point& point) {
  const Protocol ranking = report.policy.protocols.front();
  std::string text;
  for (const Protocol protocol : report.policy.protocols) {
    const Summary summary = summary_of(point, protocol);
    const std::string median = summary.count > 0 ? fmt::format("{:.1f}", summary.median / 1e3) : "-";
    text += fmt::format(" {:>9}", median);
    if (protocol != ranking) continue;
    const double bound = bound_ns(report.work, report.roofline, protocol);
    if (summary.count == 0) {
      text += fmt::format(" {:>16} {:>8} {:>6} {:>6}", "-", "-", "-", "-");
    } else {
      text += fmt::format(" {:>16} {:>8.1f} {:>6.1f} {:>6}",
                          fmt::format("{:.1f}-{:.1f}", summary.q1 / 1e3, summary.q3 / 1e3),
                          report.work.flops / summary.median, report.work.least_bytes / summary.median,
                          bound > 0 ? fmt::format("{:.0f}%", 100 * bound / summary.median) : "-");
    }
  }
  return text;
}

std::string row(const TuneReport& report, const store::Point& point, std::size_t width) {
  const ladder::Conclusion& conclusion = report.result.conclusion;
  const std::string mark = fmt::format("{}{}", point.tactic == conclusion.best ? "best " : "",
                                       point.tactic == conclusion.default_tactic ? "default" : "");
  std::string text = fmt::format("{:<12} {:>4} {:<{}} {:>9}", mark, point.rank + 1, point.tactic, width,
                                 point.unit == "ns" ? fmt::format("{:.1f}", point.predicted / 1e3) : "-");
  text += times_cells(report, point);
  text += point.rel_l2 ? fmt::format(" {:>9.2e}", *point.rel_l2) : fmt::format(" {:>9}", "-");
  text += fmt::format("  {}{}{}\n", to_string(point.verdict), point.why.empty() ? "" : ": ", point.why);
  return text;
}

std::string heading(const TuneReport& report, std::size_t width) {
  std::string text = fmt::format("{}, {}\n", report.work.heading, ladder::to_text(report.resources));
  text += fmt::format("{:<12} {:>4} {:<{}} {:>9}", "", "rank", "tactic", width, "model us");
  for (const Protocol protocol : report.policy.protocols) {
    text += fmt::format(" {:>9}", fmt::format("{} us", to_string(protocol)));
    if (protocol == report.policy.protocols.front()) {
      text += fmt::format(" {:>16} {:>8} {:>6} {:>6}", "q1-q3", "GFLOP/s", "GB/s", "bound");
    }
  }
  return text + fmt::format(" {:>9}  {}\n", "rel_l2", "verdict");
}

std::string conclusion_lines(const TuneReport& report) {
  const ladder::Conclusion& conclusion = report.result.conclusion;
  std::string text;
  if (!conclusion.decided) {
    return fmt::format(
        "undecided: the default could not be timed, so it stands; free the machine or give a larger --budget\n");
  }
  if (conclusion.best.empty()) return "nothing was timed, so there is no pick\n";
  text += fmt::format("best      {}{}\n", conclusion.best,
                      conclusion.best == conclusion.default_tactic ? "  (the default)" : "");
  if (conclusion.regret > 0) {
    const auto& interval = conclusion.regret_interval;
    text += fmt::format(
        "regret    {:.3f} of the default against the fastest, {}; A/A spread {:.2f}%, ties within {:.1f}%\n",
        conclusion.regret,
        interval ? fmt::format("{:.3f} to {:.3f} over paired rounds", interval->low, interval->high)
                 : "too few paired rounds for an interval",
        100 * conclusion.aa_spread, 100 * conclusion.tie_band);
  }
  return text;
}

std::string provenance_lines(const TuneReport& report) {
  const ladder::RungResult& result = report.result;
  std::size_t accepted = 0;
  std::size_t all = 0;
  for (const store::Point& point : result.points) {
    all += point.samples.size();
    accepted += static_cast<std::size_t>(std::count_if(point.samples.begin(), point.samples.end(),
                                                       [](const measure::Sample& sample) { return sample.accepted; }));
  }
  std::string text = fmt::format(
      "measured  {} of {} legal tactics in {} rounds, {:.1f} s, stopped by {}; {} of {} samples count; clock "
      "{:.2f} GHz, moved {:.1f}%\n",
      result.points.size(), result.legal, result.rounds, result.elapsed_s, to_string(result.stop), accepted, all,
      result.clock_ghz, 100 * result.clock_drift);
  if (const auto* waiting = std::get_if<ladder::Waiting>(&report.waiting);
      waiting != nullptr && waiting->evidence.contains("compiled_s")) {
    const double compiled_s = waiting->evidence.at("compiled_s").get<double>();
    text += fmt::format("explained in {:.1f} s{}\n", report.explained_s,
                        compiled_s > 0 ? fmt::format(", {:.1f} s of them compiling the kernel with its marks, which is "
                                                     "kept for the next time",
                                                     compiled_s)
                                       : ", with a kernel that was kept");
  }
  text += fmt::format(
      "limits    {:.0f} GFLOP/s multiply-add ({}), reads {:.1f} GB/s cold, {:.1f} GB/s warm; cold set {:.0f} MB\n",
      report.roofline.gflops, report.machine.isa, report.roofline.cold_gbps, report.roofline.warm_gbps,
      static_cast<double>(report.cold_set_bytes) / 1e6);
  text += fmt::format("machine   {}, {} {}, {}, binary {}\n", report.machine.brand, report.machine.cores,
                      report.machine.core_name, report.machine.compiler, report.machine.binary);
  text += fmt::format("{:<9} {}\n", report.work.subject == "gemm" ? "weights" : "inputs", report.work.inputs);
  text += fmt::format("{} {} by pinch {}{}\n", report.cached ? "cached   " : "at       ", report.measured_at,
                      report.version, report.cached ? "; --force measures again" : "");
  return text;
}

}  // namespace

ordered_json to_json(const TuneReport& report) {
  const ladder::RungResult& result = report.result;
  const ladder::Conclusion& conclusion = result.conclusion;
  const Protocol ranking = report.policy.protocols.front();
  auto picks = ordered_json::array();
  for (const store::Point& point : result.points) picks.push_back(pick_json(point, report));
  const double bound = bound_ns(report.work, report.roofline, ranking);
  return {{"problem", sizes_json(report.work, report.resources)},
          {"machine",
           {{"device", report.machine.device},
            {"brand", report.machine.brand},
            {"cores", report.machine.cores},
            {"isa", report.machine.isa},
            {"clock_ghz", result.clock_ghz},
            {"clock_drift", result.clock_drift},
            {"gflops", report.roofline.gflops},
            {"cold_gbps", report.roofline.cold_gbps},
            {"warm_gbps", report.roofline.warm_gbps}}},
          {"default", name_json(conclusion.default_tactic)},
          {"best", name_json(conclusion.best)},
          {"regret", conclusion.regret > 0 ? ordered_json(conclusion.regret) : ordered_json(nullptr)},
          {"picks", picks},
          {"cached", report.cached},
          {"decided", conclusion.decided},
          {"fastest", name_json(conclusion.fastest)},
          {"regret_interval", conclusion.regret_interval
                                  ? ordered_json{conclusion.regret_interval->low, conclusion.regret_interval->high}
                                  : ordered_json(nullptr)},
          {"aa_spread", conclusion.aa_spread},
          {"tie_band", conclusion.tie_band},
          {"protocol", to_string(ranking)},
          {"bound_ns", bound > 0 ? ordered_json(bound) : ordered_json(nullptr)},
          {"findings", findings_json(report.findings)},
          {"next", next_json(report.findings)},
          {"legal", result.legal},
          {"rounds", result.rounds},
          {"stop", to_string(result.stop)},
          {"elapsed_s", result.elapsed_s},
          {"explained_s", report.explained_s},
          {"provenance", provenance_json(report)}};
}

std::string to_table(const TuneReport& report) {
  const Protocol ranking = report.policy.protocols.front();
  std::vector<const store::Point*> order;
  for (const store::Point& point : report.result.points) order.push_back(&point);
  const auto sort_key = [&](const store::Point* point) {
    const Summary summary = summary_of(*point, ranking);
    return point->verdict == Verdict::kOk && summary.count > 0 ? summary.median : HUGE_VAL;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const store::Point* a, const store::Point* b) { return sort_key(a) < sort_key(b); });
  std::size_t width = 6;
  for (const store::Point* point : order) width = std::max(width, point->tactic.size());
  std::string text = heading(report, width);
  std::size_t hidden = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool is_default = order[i]->tactic == report.result.conclusion.default_tactic;
    const bool faulty = order[i]->verdict == Verdict::kWrong || order[i]->verdict == Verdict::kLaunchFailed;
    if (i < kRows || is_default || faulty) {
      text += row(report, *order[i], width);
    } else {
      ++hidden;
    }
  }
  if (hidden > 0) text += fmt::format("{:<12} ... and {} slower ones; --json has all\n", "", hidden);
  return text + conclusion_lines(report) + findings_table(report.findings) + provenance_lines(report);
}

}  // namespace pinch::report
