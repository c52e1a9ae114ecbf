#include "workbench/ladder/bench.h"

#include <algorithm>

#include "workbench/measure/clock.h"

namespace pinch::ladder {

namespace {

using measure::Verdict;

/// Indices of our tactics to time, the default first.
Result<std::vector<std::size_t>> choose_tactics(const Task& task, const BenchRequest& request) {
  PINCH_ASSIGN(ranked, task.ranked());
  std::vector<std::size_t> chosen = {ranked.front().index};
  const auto add = [&](std::size_t index) {
    if (std::find(chosen.begin(), chosen.end(), index) == chosen.end()) chosen.push_back(index);
  };
  for (const std::string& name : request.tactics) {
    PINCH_ASSIGN(index, parse_tactic(task.family(), name));
    add(index);
  }
  if (request.all) {
    for (const RankedTactic& tactic : ranked) add(tactic.index);
  }
  return chosen;
}

}  // namespace

Result<BenchReport> bench(Task& task, const BenchRequest& request, const BenchHooks& hooks) {
  BenchReport report;
  report.work = task.work();
  report.resources = task.resources();
  report.machine = task.machine();
  report.policy = request.policy;
  PINCH_ASSIGN(tactics, choose_tactics(task, request));
  PINCH_TRY(task.check_memory(request.policy, request.rivals));
  PINCH_TRY(task.prepare(request.policy));
  report.roofline = task.roofline();

  std::vector<measure::Candidate> candidates;
  std::vector<std::size_t> row_of;  // of each candidate
  const auto add_row = [&](BenchRow row, std::size_t id, const Checked& checked) {
    row.verdict = checked.verdict;
    row.why = checked.why;
    row.rel_l2 = checked.rel_l2;
    row.threads = checked.threads;
    if (checked.verdict == Verdict::kOk) {
      candidates.push_back({id, checked.threads, checked.call_ns, true});
      row_of.push_back(report.rows.size());
    }
    report.rows.push_back(std::move(row));
  };
  for (const std::size_t tactic : tactics) {
    BenchRow row;
    row.name = task.family().to_string(tactic);
    row.is_default = tactic == tactics.front();
    row.numerics = task.work().numerics;
    row.weight_bytes = task.weight_bytes();
    add_row(std::move(row), tactic, task.subject().check(tactic));
  }
  if (request.rivals) {
    PINCH_ASSIGN(rivals, task.rivals());
    report.absent = std::move(rivals.absent);
    for (Rival& rival : rivals.list) {
      BenchRow row;
      row.name = std::move(rival.name);
      row.kind = rival.kind;
      row.numerics = std::move(rival.numerics);
      row.weight_bytes = rival.weight_bytes;
      add_row(std::move(row), rival.id, rival.checked);
    }
  }

  measure::SystemClock clock;
  measure::Measurement measured =
      measure_rounds(task.sampler(), clock, candidates, request.policy, {hooks.round_ended, hooks.stop_requested});
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    BenchRow& row = report.rows[row_of[i]];
    row.samples = std::move(measured.tracks[i].samples);
    if (measured.tracks[i].failed) {
      row.verdict = Verdict::kLaunchFailed;
      row.why = measured.tracks[i].failed->message();
    } else if (accepted_ns(row.samples, request.policy.protocols.front()).empty()) {
      row.verdict = Verdict::kUnstable;
      row.why = "no sample had the cores to itself; free the machine and try again";
    }
  }
  report.stop = measured.stop;
  report.rounds = measured.rounds;
  report.clock_ghz = measured.clock_ghz;
  report.clock_drift = measured.clock_drift;
  return report;
}

}  // namespace pinch::ladder
