#include "workbench/ladder/gemm_bench.h"

#include <algorithm>
#include <map>

#include "pinch/families.h"
#include "workbench/ladder/gemm_subject.h"
#include "workbench/measure/limits.h"
#include "workbench/peers/peer_module.h"

namespace pinch::ladder {

namespace {

using measure::Protocol;
using measure::Verdict;

/// A peer with weights of its own in the peer's layout: the first warm, the others cold, and an output of its own type.
class PeerSubject {
 public:
  PeerSubject(std::unique_ptr<peers::Peer> peer, const GemmProblem& problem)
      : peer_(std::move(peer)),
        out_(static_cast<std::size_t>(problem.m * problem.n) *
                 (peer_->output() == OutputType::kBf16 ? sizeof(Bf16) : sizeof(float)),
             std::byte{0xff}) {}

  [[nodiscard]] const peers::Peer& peer() const { return *peer_; }

  Result<void> prepare(const Fp4Matrix& weights, std::size_t cold_bytes) {
    PINCH_TRY(peer_->add_weights(weights.view()));
    count_ = 1 + std::max<std::size_t>(2, (cold_bytes - 1) / peer_->weight_bytes() + 1);
    for (std::size_t variant = 1; variant < count_; ++variant) {
      PINCH_TRY(peer_->add_weights(other_weights(weights, variant).view()));
    }
    return {};
  }

  Result<void> run(Protocol protocol, int calls) {
    for (int i = 0; i < calls; ++i) {
      if (protocol == Protocol::kCold) next_ = next_ + 1 < count_ ? next_ + 1 : 1;
      PINCH_TRY(peer_->run(protocol == Protocol::kCold ? next_ : 0, out_.data()));
    }
    return {};
  }

  Checked check(const Fp4View& weights, std::span<const Bf16> a, const GemmProblem& problem) {
    measure::SystemClock clock;
    constexpr std::int64_t kReferenceRows = 8;
    auto reference = check::GemmCheck::create(weights, a, problem.m, peer_->output(), kReferenceRows, /*seed=*/13);
    if (!reference) return {Verdict::kLaunchFailed, reference.error().message(), std::nullopt, 1, 0};
    if (const auto ran = run(Protocol::kWarm, 1); !ran) {
      return {Verdict::kLaunchFailed, ran.error().message(), std::nullopt, 1, 0};
    }
    const check::OutputVerdict output = reference->compare(out_.data());
    if (!output.right) return {Verdict::kWrong, output.why, output.rel_l2, 1, 0};
    const double start = clock.wall_ns();
    if (const auto ran = run(Protocol::kWarm, 1); !ran) {
      return {Verdict::kLaunchFailed, ran.error().message(), output.rel_l2, 1, 0};
    }
    return {Verdict::kOk, "", output.rel_l2, 1, clock.wall_ns() - start};
  }

 private:
  std::unique_ptr<peers::Peer> peer_;
  std::vector<std::byte> out_;
  std::size_t count_ = 1;
  std::size_t next_ = 0;
};

/// Runs row `id` of the report: a tactic of ours or a peer.
class RowRunner final : public measure::Runner {
 public:
  explicit RowRunner(GemmSubject& ours) : ours_(ours) {}
  std::map<std::size_t, std::size_t> tactic_of_row;
  std::map<std::size_t, PeerSubject> peer_of_row;

  Result<void> ready(std::size_t id, Protocol protocol, int calls) override {
    return peer_of_row.contains(id) ? Result<void>() : ours_.ready(tactic_of_row.at(id), protocol, calls);
  }
  Result<void> run(std::size_t id, Protocol protocol, int calls) override {
    if (const auto peer = peer_of_row.find(id); peer != peer_of_row.end()) return peer->second.run(protocol, calls);
    return ours_.run(tactic_of_row.at(id), protocol, calls);
  }

 private:
  GemmSubject& ours_;
};

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

}  // namespace

Result<BenchReport> bench_gemm(Fp4Matrix weights, const BenchRequest& request, const BenchHooks& hooks) {
  PINCH_ASSIGN(family, find_tactic_family("cpu"));
  PINCH_ASSIGN(machine, describe_machine());
  BenchReport report;
  report.problem = {request.m, weights.n, weights.k, weights.format, request.output};
  report.threads = request.threads;
  report.machine = machine;
  report.policy = request.policy;
  report.weights_name = request.weights_name;
  const Resources resources{0, request.threads};
  PINCH_ASSIGN(tactics, choose_tactics(*family, report.problem, resources, request));
  const std::size_t cold_bytes = cold_set_bytes(request.policy);
  constexpr std::size_t kSets = 4;  // ours and three peers'
  PINCH_TRY(check_memory(report.problem, kSets * cold_bytes));
  PINCH_ASSIGN(roofline, measure_roofline(request.threads, cold_bytes, weights.codes.size() + weights.scales.size()));
  report.roofline = roofline;
  PINCH_ASSIGN(set, PreparedSet::create(weights, cold_bytes));
  PINCH_ASSIGN(ours, GemmSubject::create(set, request.m, request.output, request.threads));

  RowRunner runner(*ours);
  std::vector<measure::Candidate> candidates;
  const auto add_row = [&](BenchRow row, const Checked& checked) {
    row.verdict = checked.verdict;
    row.why = checked.why;
    row.rel_l2 = checked.rel_l2;
    row.threads = row.is_peer ? request.threads : checked.threads;
    if (checked.verdict == Verdict::kOk) candidates.push_back({report.rows.size(), row.threads, checked.call_ns, true});
    report.rows.push_back(std::move(row));
  };
  for (const std::size_t tactic : tactics) {
    runner.tactic_of_row[report.rows.size()] = tactic;
    BenchRow row;
    row.name = family->to_string(tactic);
    row.is_default = tactic == tactics.front();
    row.numerics = "bf16 x FP4, exact; FP32 sums";
    row.weight_bytes = set.warm().bytes();
    add_row(std::move(row), ours->check(tactic));
  }
  if (request.peers) {
    peers::PeerList list = peers::make_peers({report.problem, ours->activations().data(), request.threads});
    report.absent = std::move(list.absent);
    for (std::unique_ptr<peers::Peer>& peer : list.peers) {
      PeerSubject subject(std::move(peer), report.problem);
      BenchRow row;
      row.name = subject.peer().name();
      row.is_peer = true;
      row.numerics = subject.peer().numerics();
      row.weight_bytes = subject.peer().weight_bytes();
      PINCH_TRY(subject.prepare(weights, cold_bytes));
      const Checked checked = subject.check(set.view(), ours->activations(), report.problem);
      runner.peer_of_row.emplace(report.rows.size(), std::move(subject));
      add_row(std::move(row), checked);
    }
  }

  measure::SystemClock clock;
  measure::AddChain meter(clock);
  measure::Measurement measured =
      measure_rounds(runner, clock, meter, candidates, request.policy, {hooks.round_ended, hooks.stop_requested});
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    BenchRow& row = report.rows[candidates[i].id];
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
