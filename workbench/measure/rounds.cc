#include "workbench/measure/rounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "workbench/measure/statistics.h"

namespace pinch::measure {

namespace {

constexpr int kMaxCalls = 1 << 16;

/// Everything one measurement carries from round to round.
class Rounds {
 public:
  Rounds(Runner& runner, Clock& clock, FrequencyMeter& meter, std::span<const Candidate> candidates,
         const Policy& policy, const Hooks& hooks)
      : runner_(runner),
        clock_(clock),
        meter_(meter),
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

  double read_clock_rate() {
    const double ghz = meter_.ghz();
    slowest_ghz_ = std::min(slowest_ghz_, ghz);
    result_.clock_ghz = std::max(result_.clock_ghz, ghz);
    result_.clock_drift = 1 - slowest_ghz_ / result_.clock_ghz;
    return ghz;
  }

  void sample(std::size_t index, Protocol protocol, int round) {
    const Candidate& candidate = candidates_[index];
    Track& track = result_.tracks[index];
    const double estimate_ns = std::max(candidate.estimate_ns, 1.0);
    const int calls = static_cast<int>(
        std::clamp(std::ceil(policy_.min_sample_ns / estimate_ns), 1.0, static_cast<double>(kMaxCalls)));
    const int untimed = estimate_ns < policy_.long_call_ns ? 1 : 0;
    if (!succeeded(track, runner_.ready(candidate.id, protocol, untimed + calls))) return;
    if (untimed > 0 && !succeeded(track, runner_.run(candidate.id, protocol, untimed))) return;
    clock_.ready();
    const double ghz_before = read_clock_rate();
    const double wall_start = clock_.wall_ns();
    const double cpu_start = clock_.cpu_ns();
    const Result<void> ran = runner_.run(candidate.id, protocol, calls);
    const double cpu_ns = clock_.cpu_ns() - cpu_start;
    const double wall_ns = clock_.wall_ns() - wall_start;
    if (!succeeded(track, ran)) return;
    const double ghz_after = read_clock_rate();
    const bool had_the_cores = cpu_ns >= policy_.min_cpu_share * candidate.threads * wall_ns;
    // Without an untimed call the first reading is of whatever ran before, whose instructions may allow another rate.
    const bool clock_stood = untimed == 0 || std::abs(ghz_after / ghz_before - 1) <= policy_.max_clock_move;
    track.samples.push_back({round, protocol, calls, wall_ns, cpu_ns, ghz_after, had_the_cores && clock_stood});
  }

  static bool succeeded(Track& track, const Result<void>& ran) {
    if (!ran) track.failed = ran.error();
    return ran.ok();
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

  Runner& runner_;
  Clock& clock_;
  FrequencyMeter& meter_;
  std::span<const Candidate> candidates_;
  const Policy& policy_;
  const Hooks& hooks_;
  std::mt19937_64 random_;
  double start_ns_;
  double slowest_ghz_ = std::numeric_limits<double>::infinity();
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

Measurement measure_rounds(Runner& runner, Clock& clock, FrequencyMeter& meter, std::span<const Candidate> candidates,
                           const Policy& policy, const Hooks& hooks) {
  return Rounds(runner, clock, meter, candidates, policy, hooks).run();
}

}  // namespace pinch::measure
