#include "workbench/ladder/tactic_rung.h"

#include <algorithm>
#include <random>

namespace pinch::ladder {

namespace {

using measure::Verdict;

/// A tactic that passed its check and will be timed.
struct Survivor {
  std::size_t index = 0;  ///< in the family
  std::size_t point = 0;  ///< in RungResult::points
  double call_ns = 0;
};

/// Checking ends at this share of the budget: on a busy machine the times it foresees for the rounds are too small.
constexpr double kCheckShare = 0.4;

/// Order in which candidates are tried: by the model's ranking, with a random one of the rest at every `random_every`th
/// place, so that a budget that ends early still tests the model where it thinks little of a tactic.
std::vector<std::size_t> trial_order(std::size_t count, const RungOptions& options) {
  std::vector<std::size_t> order;
  std::vector<std::size_t> rest(count);
  for (std::size_t i = 0; i < count; ++i) rest[i] = i;
  if (options.all) return rest;
  std::mt19937_64 random(options.policy.seed);
  while (!rest.empty()) {
    const bool lucky = (order.size() + 1) % static_cast<std::size_t>(options.random_every) == 0;
    const std::size_t at = lucky ? random() % rest.size() : 0;
    order.push_back(rest[at]);
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return order;
}

class TacticRung {
 public:
  TacticRung(Subject& subject, measure::Sampler& sampler, measure::Clock& clock, const RungOptions& options,
             Journal& journal, const RungHooks& hooks)
      : subject_(subject),
        sampler_(sampler),
        clock_(clock),
        options_(options),
        journal_(journal),
        hooks_(hooks),
        start_ns_(clock.wall_ns()) {}

  Result<RungResult> run() {
    PINCH_ASSIGN(ranked, subject_.ranked());
    result_.legal = ranked.size();
    check_candidates(ranked);
    if (survivors_.empty() && !stopped()) {
      return Error{ErrorCode::kIllegal, "no tactic gave a right result: " + result_.points.front().why,
                   result_.points.front().tactic};
    }
    measure_survivors();
    conclude_all();
    return std::move(result_);
  }

 private:
  [[nodiscard]] double elapsed_s() const { return (clock_.wall_ns() - start_ns_) / 1e9; }
  [[nodiscard]] bool stopped() const { return hooks_.stop_requested && hooks_.stop_requested(); }

  /// Time that the fewest rounds take of one candidate.
  [[nodiscard]] double rounds_s(double call_ns) const {
    const measure::Policy& policy = options_.policy;
    const double untimed_ns = call_ns < policy.long_call_ns ? call_ns : 0;
    const double sample_ns = std::max(call_ns, policy.min_sample_ns) + untimed_ns;
    return sample_ns * policy.min_rounds * static_cast<double>(policy.protocols.size()) / 1e9;
  }

  void check_candidates(const std::vector<RankedTactic>& ranked) {
    double needed_s = 0;
    for (const std::size_t rank : trial_order(options_.default_only ? 1 : ranked.size(), options_)) {
      const double budget_s = options_.policy.budget_s;
      const bool used_up = elapsed_s() >= kCheckShare * budget_s || elapsed_s() + needed_s >= budget_s;
      const bool enough = survivors_.size() >= 2 && used_up;
      if (stopped() || (enough && !options_.all)) break;
      const Checked checked = check_one(ranked[rank], rank);
      if (checked.verdict != Verdict::kOk) continue;
      survivors_.push_back({ranked[rank].index, result_.points.size() - 1, checked.call_ns});
      needed_s += rounds_s(checked.call_ns) * (rank == 0 ? 2 : 1);  // the default is entered twice
    }
  }

  Checked check_one(const RankedTactic& ranked, std::size_t rank) {
    Checked checked = subject_.check(ranked.index);
    store::Point point;
    point.tactic = subject_.family().to_string(ranked.index);
    point.rank = static_cast<std::int64_t>(rank);
    point.predicted = ranked.estimate.cost;
    point.unit = ranked.estimate.unit;
    point.verdict = checked.verdict;
    point.why = checked.why;
    point.rel_l2 = checked.rel_l2;
    point.threads = checked.threads;
    journal_.point(point);
    result_.points.push_back(std::move(point));
    if (hooks_.progress) hooks_.progress({"check", result_.points.size(), result_.legal, elapsed_s()});
    return checked;
  }

  void measure_survivors() {
    std::vector<measure::Candidate> candidates;
    std::vector<std::size_t> point_of;  // of each candidate
    for (const Survivor& survivor : survivors_) {
      const store::Point& point = result_.points[survivor.point];
      const bool is_default = point.rank == 0;
      for (int entry = 0; entry < (is_default ? 2 : 1); ++entry) {
        candidates.push_back({survivor.index, static_cast<int>(point.threads), survivor.call_ns, is_default});
        point_of.push_back(survivor.point);
      }
    }
    const auto is_twin = [&](std::size_t i) { return i > 0 && point_of[i] == point_of[i - 1]; };

    measure::Policy policy = options_.policy;
    // `all` measures every candidate at least the fewest rounds, however long that takes.
    policy.budget_s = std::max(options_.policy.budget_s - elapsed_s(), options_.all ? least_s(candidates) : 0.0);
    std::vector<std::size_t> written(candidates.size(), 0);
    measure::Hooks hooks;
    hooks.stop_requested = hooks_.stop_requested;
    hooks.round_ended = [&](const measure::RoundReport& report) {
      std::vector<store::TuneStore::TacticSamples> batch;
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        const auto& samples = report.so_far.tracks[i].samples;
        batch.push_back({result_.points[point_of[i]].tactic, is_twin(i), std::span(samples).subspan(written[i])});
        written[i] = samples.size();
      }
      journal_.samples(batch);
      if (hooks_.progress) {
        hooks_.progress({"measure", static_cast<std::size_t>(report.round) + 1, report.live, elapsed_s()});
      }
    };
    measure::Measurement measured = measure_rounds(sampler_, clock_, candidates, policy, hooks);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      store::Point& point = result_.points[point_of[i]];
      (is_twin(i) ? point.twin : point.samples) = std::move(measured.tracks[i].samples);
      if (measured.tracks[i].failed) {
        point.verdict = Verdict::kLaunchFailed;
        point.why = measured.tracks[i].failed->message();
      }
    }
    result_.stop = measured.stop;
    result_.rounds = measured.rounds;
    result_.clock_ghz = measured.clock_ghz;
    result_.clock_drift = measured.clock_drift;
  }

  [[nodiscard]] double least_s(const std::vector<measure::Candidate>& candidates) const {
    constexpr double kSlack = 1.5;  // check calls are cold, later ones need not be as fast as hoped
    double sum_s = 0;
    for (const measure::Candidate& candidate : candidates) sum_s += kSlack * rounds_s(candidate.estimate_ns);
    return sum_s;
  }

  void conclude_all() {
    for (store::Point& point : result_.points) {
      settle_verdict(point, options_.policy);
      journal_.verdict(point);
    }
    std::sort(result_.points.begin(), result_.points.end(),
              [](const store::Point& a, const store::Point& b) { return a.rank < b.rank; });
    result_.conclusion = conclude(result_.points, options_.policy);
    result_.elapsed_s = elapsed_s();
  }

  Subject& subject_;
  measure::Sampler& sampler_;
  measure::Clock& clock_;
  const RungOptions& options_;
  Journal& journal_;
  const RungHooks& hooks_;
  double start_ns_;
  std::vector<Survivor> survivors_;
  RungResult result_;
};

}  // namespace

Result<RungResult> run_tactic_rung(Subject& subject, measure::Sampler& sampler, measure::Clock& clock,
                                   const RungOptions& options, Journal& journal, const RungHooks& hooks) {
  return TacticRung(subject, sampler, clock, options, journal, hooks).run();
}

Result<RungResult> run_tactic_rung(HostSubject& subject, measure::Clock& clock, measure::FrequencyMeter& meter,
                                   const RungOptions& options, Journal& journal, const RungHooks& hooks) {
  measure::HostSampler sampler(subject, clock, meter);
  return run_tactic_rung(subject, sampler, clock, options, journal, hooks);
}

}  // namespace pinch::ladder
