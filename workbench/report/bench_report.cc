#include "workbench/report/bench_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "workbench/measure/statistics.h"

namespace pinch::report {

namespace {

using ladder::BenchReport;
using ladder::BenchRow;
using measure::Protocol;
using measure::Summary;
using nlohmann::ordered_json;

constexpr Protocol kProtocols[] = {Protocol::kCold, Protocol::kWarm};

Summary summary_of(const BenchRow& row, Protocol protocol) {
  return measure::summarize(accepted_ns(row.samples, protocol));
}

/// A peer's bound counts the bytes that its own weights have.
double row_bytes(const BenchReport& report, const BenchRow& row) {
  GemmProblem problem = report.problem;
  const double ours = ladder::least_bytes(problem);
  const double weights = static_cast<double>(problem.n) * static_cast<double>(problem.k) *
                         (0.5 + 1.0 / static_cast<double>(group_size(problem.format)));
  return row.is_peer ? ours - weights + static_cast<double>(row.weight_bytes) : ours;
}

ordered_json times_json(const BenchReport& report, const BenchRow& row, Protocol protocol) {
  const Summary summary = summary_of(row, protocol);
  const auto taken = std::count_if(row.samples.begin(), row.samples.end(),
                                   [&](const measure::Sample& sample) { return sample.protocol == protocol; });
  if (summary.count == 0) {
    return {{"median_ns", nullptr}, {"q1_ns", nullptr},  {"q3_ns", nullptr}, {"accepted", 0},
            {"taken", taken},       {"gflops", nullptr}, {"gbps", nullptr},  {"bound", nullptr}};
  }
  const double bound = ladder::bound_ns(report.problem, report.roofline, protocol);
  return {{"median_ns", summary.median},
          {"q1_ns", summary.q1},
          {"q3_ns", summary.q3},
          {"accepted", summary.count},
          {"taken", taken},
          {"gflops", ladder::flops(report.problem) / summary.median},
          {"gbps", row_bytes(report, row) / summary.median},
          {"bound", bound > 0 ? ordered_json(bound / summary.median) : ordered_json(nullptr)}};
}

std::string label(const BenchRow& row) {
  return fmt::format("{}{}", row.name, row.is_default ? " (default)" : "");
}

std::string times_cell(const BenchReport& report, const BenchRow& row, Protocol protocol) {
  const Summary summary = summary_of(row, protocol);
  if (summary.count == 0) return fmt::format(" {:>10} {:>15} {:>8} {:>6} {:>6}", "-", "-", "-", "-", "-");
  const double bound = ladder::bound_ns(report.problem, report.roofline, protocol);
  return fmt::format(" {:>10.1f} {:>15} {:>8.1f} {:>6.1f} {:>5.0f}%", summary.median / 1e3,
                     fmt::format("{:.1f}-{:.1f}", summary.q1 / 1e3, summary.q3 / 1e3),
                     ladder::flops(report.problem) / summary.median, row_bytes(report, row) / summary.median,
                     100 * bound / summary.median);
}

}  // namespace

ordered_json to_json(const BenchReport& report) {
  auto rows = ordered_json::array();
  for (const BenchRow& row : report.rows) {
    ordered_json entry{{"name", row.name},
                       {"kind", row.is_peer ? "peer" : "tactic"},
                       {"default", row.is_default},
                       {"numerics", row.numerics},
                       {"verdict", to_string(row.verdict)},
                       {"rel_l2", row.rel_l2 ? ordered_json(*row.rel_l2) : ordered_json(nullptr)},
                       {"threads", row.threads},
                       {"weight_bytes", row.weight_bytes}};
    for (const Protocol protocol : kProtocols) {
      entry[std::string(to_string(protocol))] = times_json(report, row, protocol);
    }
    if (!row.why.empty()) entry["why"] = row.why;
    rows.push_back(std::move(entry));
  }
  return {{"problem",
           {{"m", report.problem.m},
            {"n", report.problem.n},
            {"k", report.problem.k},
            {"format", to_string(report.problem.format)},
            {"output", to_string(report.problem.output)},
            {"threads", report.threads}}},
          {"machine",
           {{"device", report.machine.device},
            {"isa", report.machine.isa},
            {"clock_ghz", report.clock_ghz},
            {"clock_drift", report.clock_drift},
            {"gflops", report.roofline.gflops},
            {"cold_gbps", report.roofline.cold_gbps},
            {"warm_gbps", report.roofline.warm_gbps}}},
          {"rows", rows},
          {"absent", report.absent},
          {"weights", report.weights_name},
          {"stop", to_string(report.stop)},
          {"rounds", report.rounds},
          {"policy", report.policy.text()}};
}

std::string to_table(const BenchReport& report) {
  const GemmProblem& problem = report.problem;
  std::string text = fmt::format("gemm  m {}  n {}  k {}  {} -> {}, {} thread{}; weights {}\n", problem.m, problem.n,
                                 problem.k, to_string(problem.format), to_string(problem.output), report.threads,
                                 report.threads == 1 ? "" : "s", report.weights_name);
  std::size_t width = 0;
  for (const BenchRow& row : report.rows) width = std::max(width, label(row).size());
  text += fmt::format("{:<{}}", "", width);
  for (const Protocol protocol : kProtocols) {
    text += fmt::format(" {:>10} {:>15} {:>8} {:>6} {:>6}", fmt::format("{} us", to_string(protocol)), "q1-q3",
                        "GFLOP/s", "GB/s", "bound");
  }
  text += fmt::format(" {:>9}  {}\n", "rel_l2", "numerics");
  for (const BenchRow& row : report.rows) {
    text += fmt::format("{:<{}}", label(row), width);
    for (const Protocol protocol : kProtocols) text += times_cell(report, row, protocol);
    text += row.rel_l2 ? fmt::format(" {:>9.2e}", *row.rel_l2) : fmt::format(" {:>9}", "-");
    text += row.verdict == measure::Verdict::kOk ? fmt::format("  {}\n", row.numerics)
                                                 : fmt::format("  {}: {}\n", to_string(row.verdict), row.why);
  }
  for (const std::string& absent : report.absent) text += fmt::format("absent: {}\n", absent);
  text += fmt::format(
      "limits: {:.0f} GFLOP/s multiply-add ({}), reads {:.1f} GB/s cold, {:.1f} GB/s warm; `bound` is the time these "
      "allow mm_bf16_fp4 over the time taken\n",
      report.roofline.gflops, report.machine.isa, report.roofline.cold_gbps, report.roofline.warm_gbps);
  text += fmt::format("{} rounds, stopped by {}; clock {:.2f} GHz, moved {:.1f}%; {}, {} cores, {}\n", report.rounds,
                      to_string(report.stop), report.clock_ghz, 100 * report.clock_drift, report.machine.brand,
                      report.machine.cores, report.machine.compiler);
  return text;
}

}  // namespace pinch::report
