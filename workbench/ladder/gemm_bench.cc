#include "workbench/ladder/gemm_bench.h"

#include <algorithm>

#include "workbench/measure/clock.h"

namespace pinch::ladder {

namespace {

using measure::Verdict;

/// Indices of our tactics to time, the default first.
Result<std::vector<std::size_t>> choose_tactics(const TacticFamily& family, const GemmProblem& problem,
                                                const Resources& resources, const BenchRequest& request) {
  PINCH_ASSIGN(ranked, rank_tactics(family, problem, resources));
  std::vector<std::size_t> chosen = {ranked.front().index};
  const auto add = [&](std::size_t index) {
    if (std::find(chosen.begin(), chosen.end(), index) == chosen.end()) chosen.push_back(index);
  };
  for (const std::string& name : request.tactics) {
    PINCH_ASSIGN(index, parse_tactic(family, name));
    add(index);
  }
  if (request.all) {
    for (const RankedTactic& tactic : ranked) add(tactic.index);
  }
  return chosen;
}

/// The weights' shape without the weights.
Fp4Matrix shape_of(const Fp4Matrix& weights) {
  Fp4Matrix shape;
  shape.format = weights.format;
  shape.n = weights.n;
  shape.k = weights.k;
  return shape;
}

}  // namespace

GemmBench::GemmBench(GemmTarget& target, Fp4Matrix weights) : target_(target), weights_(std::move(weights)) {}

Result<BenchReport> GemmBench::run(const BenchRequest& request, const BenchHooks& hooks) {
  const TacticFamily& family = target_.family();
  BenchReport report;
  report.problem = {request.m, weights_.n, weights_.k, weights_.format, request.output};
  report.resources = target_.resources();
  report.machine = target_.machine();
  report.policy = request.policy;
  report.weights_name = request.weights_name;
  PINCH_ASSIGN(tactics, choose_tactics(family, report.problem, report.resources, request));
  PINCH_TRY(target_.check_memory(report.problem, request.policy, request.rivals));
  if (!prepared_) {
    const Fp4Matrix shape = shape_of(weights_);
    PINCH_TRY(target_.prepare(std::move(weights_), request.policy));
    weights_ = shape;
    prepared_ = true;
  }
  report.roofline = target_.roofline();
  PINCH_ASSIGN(gemm, target_.problem(request.m, request.output));

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
    row.name = family.to_string(tactic);
    row.is_default = tactic == tactics.front();
    row.numerics = "bf16 x FP4, exact; FP32 sums";
    row.weight_bytes = target_.weight_bytes();
    add_row(std::move(row), tactic, gemm->subject().check(tactic));
  }
  if (request.rivals) {
    PINCH_ASSIGN(rivals, gemm->rivals());
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
      measure_rounds(gemm->sampler(), clock, candidates, request.policy, {hooks.round_ended, hooks.stop_requested});
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
