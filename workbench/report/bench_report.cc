#include "workbench/report/bench_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "workbench/measure/statistics.h"
#include "workbench/report/sizes_json.h"

namespace pinch::report {

namespace {

using ladder::BenchReport;
using ladder::BenchRow;
using ladder::RowKind;
using measure::Protocol;
using measure::Summary;
using nlohmann::ordered_json;

constexpr Protocol kProtocols[] = {Protocol::kCold, Protocol::kWarm};

Summary summary_of(const BenchRow& row, Protocol protocol) {
  return measure::summarize(accepted_ns(row.samples, protocol));
}

/// A peer moves the bytes that its own weights have; a yardstick what it says, and it multiplies nothing.
double row_bytes(const BenchReport& report, const BenchRow& row) {
  const auto own = static_cast<double>(row.weight_bytes);
  if (row.kind == RowKind::kYardstick) return own;
  return row.kind == RowKind::kPeer ? report.work.least_bytes - report.work.weight_bytes + own
                                    : report.work.least_bytes;
}

ordered_json times_json(const BenchReport& report, const BenchRow& row, Protocol protocol) {
  const Summary summary = summary_of(row, protocol);
  const auto taken = std::count_if(row.samples.begin(), row.samples.end(),
                                   [&](const measure::Sample& sample) { return sample.protocol == protocol; });
  if (summary.count == 0) {
    return {{"median_ns", nullptr}, {"q1_ns", nullptr},  {"q3_ns", nullptr}, {"accepted", 0},
            {"taken", taken},       {"gflops", nullptr}, {"gbps", nullptr},  {"bound", nullptr}};
  }
  const double bound = ladder::bound_ns(report.work, report.roofline, protocol);
  const bool multiplies = row.kind != RowKind::kYardstick;
  return {{"median_ns", summary.median},
          {"q1_ns", summary.q1},
          {"q3_ns", summary.q3},
          {"accepted", summary.count},
          {"taken", taken},
          {"gflops", multiplies ? ordered_json(report.work.flops / summary.median) : ordered_json(nullptr)},
          {"gbps", row_bytes(report, row) / summary.median},
          {"bound", multiplies && bound > 0 ? ordered_json(bound / summary.median) : ordered_json(nullptr)}};
}

std::string label(const BenchRow& row) {
  return fmt::format("{}{}", row.name, row.is_default ? " (default)" : "");
}

std::string times_cell(const BenchReport& report, const BenchRow& row, Protocol protocol) {
  const Summary summary = summary_of(row, protocol);
  if (summary.count == 0) return fmt::format(" {:>10} {:>15} {:>8} {:>6} {:>6}", "-", "-", "-", "-", "-");
  const double bound = ladder::bound_ns(report.work, report.roofline, protocol);
  const std::string quartiles = fmt::format("{:.1f}-{:.1f}", summary.q1 / 1e3, summary.q3 / 1e3);
  const double gbps = row_bytes(report, row) / summary.median;
  if (row.kind == RowKind::kYardstick) {
    return fmt::format(" {:>10.1f} {:>15} {:>8} {:>6.1f} {:>6}", summary.median / 1e3, quartiles, "-", gbps, "-");
  }
  return fmt::format(" {:>10.1f} {:>15} {:>8.1f} {:>6.1f} {:>6}", summary.median / 1e3, quartiles,
                     report.work.flops / summary.median, gbps,
                     bound > 0 ? fmt::format("{:.0f}%", 100 * bound / summary.median) : "-");
}

}  // namespace

ordered_json to_json(const BenchReport& report) {
  auto rows = ordered_json::array();
  for (const BenchRow& row : report.rows) {
    ordered_json entry{{"name", row.name},
                       {"kind", to_string(row.kind)},
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
  return {{"problem", sizes_json(report.work, report.resources)},
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
          {"weights", report.work.inputs},
          {"stop", to_string(report.stop)},
          {"rounds", report.rounds},
          {"policy", report.policy.text()}};
}

std::string to_table(const BenchReport& report) {
  std::string text = fmt::format("{}, {}; {} {}\n", report.work.heading, ladder::to_text(report.resources),
                                 report.work.subject == "gemm" ? "weights" : "inputs", report.work.inputs);
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
      "allow over the time taken\n",
      report.roofline.gflops, report.machine.isa, report.roofline.cold_gbps, report.roofline.warm_gbps);
  text += fmt::format("{} rounds, stopped by {}; clock {:.2f} GHz, moved {:.1f}%; {}, {} {}, {}\n", report.rounds,
                      to_string(report.stop), report.clock_ghz, 100 * report.clock_drift, report.machine.brand,
                      report.machine.cores, report.machine.core_name, report.machine.compiler);
  return text;
}

}  // namespace pinch::report
