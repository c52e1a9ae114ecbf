#include "workbench/measure/rounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "workbench/measure/statistics.h"

namespace pinch::measure {

namespace {

/// Everything one measurement carries from round to round.
class Rounds {
 public:
  Rounds(Sampler& sampler, Clock& clock, std::span<const Candidate> candidates, const Policy& policy,
         const Hooks& hooks)
      : sampler_(sampler),
        clock_(clock),
        candidates_(candidates),
        policy_(policy),
        hooks_(hooks),
        random_(policy.seed),
        start_ns_(clock.wall_ns()) {
    result_.tracks.resize(candidates.size());
  }

  Measurement run() {
    for (int round = 0; !finished(round); ++round) {
      take(round);
      result_.rounds = round + 1;
      drop_slow();
      if (hooks_.round_ended) hooks_.round_ended({round, live().size(), elapsed_s(), result_});
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] double elapsed_s() { return (clock_.wall_ns() - start_ns_) / 1e9; }
  [[nodiscard]] Protocol ranking() const { return policy_.protocols.front(); }

  [[nodiscard]] std::vector<std::size_t> live() const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (!result_.tracks[i].failed && !result_.tracks[i].dropped) indices.push_back(i);
    }
    return indices;
  }

  /// True when measuring must end now; sets why.
  bool out_of_time() {
    if (hooks_.stop_requested && hooks_.stop_requested()) {
      result_.stop = StopReason::kInterrupted;
      return true;
    }
    if (elapsed_s() < policy_.budget_s) return false;
    result_.stop = StopReason::kBudget;
    return true;
  }

  bool finished(int round) {
    if (ended_ || out_of_time()) return true;
    const std::vector<std::size_t> indices = live();
    if (round < policy_.min_rounds && !indices.empty()) return false;
    const bool quiet = std::all_of(indices.begin(), indices.end(), [&](std::size_t i) {
      const std::vector<double> times = accepted_ns(result_.tracks[i].samples, ranking());
      return times.size() >= static_cast<std::size_t>(policy_.min_rounds) &&
             relative_noise(times) <= policy_.noise_target;
    });
    if (quiet) {
      result_.stop = StopReason::kNoise;
      return true;
    }
    result_.stop = StopReason::kRounds;
    return round >= policy_.max_rounds;
  }

  void take(int round) {
    std::vector<std::size_t> order = live();
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t i : order) {
      for (const Protocol protocol : policy_.protocols) {
        ended_ = out_of_time();
        if (ended_) break;
        sample(i, protocol, round);
        if (result_.tracks[i].failed) break;
      }
      if (ended_) break;
    }
  }

  void sample(std::size_t index, Protocol protocol, int round) {
    Track& track = result_.tracks[index];
    Result<Sample> taken = sampler_.sample(candidates_[index], protocol, policy_);
    const ClockRates rates = sampler_.clock_rates();
    result_.clock_ghz = rates.highest_ghz;
    result_.clock_drift = rates.drift();
    if (!taken) {
      track.failed = taken.error();
      return;
    }
    taken->round = round;
    track.samples.push_back(*taken);
  }

  void drop_slow() {
    std::vector<Summary> summaries;
    double best = std::numeric_limits<double>::infinity();
    for (const Track& track : result_.tracks) {
      summaries.push_back(summarize(accepted_ns(track.samples, ranking())));
      if (summaries.back().count > 0) best = std::min(best, summaries.back().median);
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const auto slower = [&](int rounds, double margin) {
        return summaries[i].count >= static_cast<std::size_t>(rounds) && summaries[i].min > best * (1 + margin);
      };
      const bool slow =
          slower(policy_.min_rounds, policy_.drop_margin) || slower(policy_.far_rounds, policy_.far_margin);
      if (slow && !candidates_[i].keep) result_.tracks[i].dropped = true;
    }
  }

  Sampler& sampler_;
  Clock& clock_;
  std::span<const Candidate> candidates_;
  const Policy& policy_;
  const Hooks& hooks_;
  std::mt19937_64 random_;
  double start_ns_;
  bool ended_ = false;
  Measurement result_;
};

}  // namespace

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kNoise:
      return "noise";
    case StopReason::kBudget:
      return "budget";
    case StopReason::kRounds:
      return "rounds";
    case StopReason::kInterrupted:
      return "interrupted";
  }
  return "unknown";
}

std::vector<double> accepted_ns(std::span<const Sample> samples, Protocol protocol) {
  std::vector<double> times;
  for (const Sample& sample : samples) {
    if (sample.accepted && sample.protocol == protocol) times.push_back(sample.ns_per_call());
  }
  return times;
}

Measurement measure_rounds(Sampler& sampler, Clock& clock, std::span<const Candidate> candidates, const Policy& policy,
                           const Hooks& hooks) {
  return Rounds(sampler, clock, candidates, policy, hooks).run();
}

Measurement measure_rounds(Runner& runner, Clock& clock, FrequencyMeter& meter, std::span<const Candidate> candidates,
                           const Policy& policy, const Hooks& hooks) {
  HostSampler sampler(runner, clock, meter);
  return measure_rounds(sampler, clock, candidates, policy, hooks);
}

}  // namespace pinch::measure
