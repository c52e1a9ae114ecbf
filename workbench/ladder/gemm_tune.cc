#include "workbench/ladder/gemm_tune.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "pinch/version.h"
#include "workbench/measure/clock.h"
#include "workbench/store/binary_hash.h"

namespace pinch::ladder {

namespace {

using measure::Protocol;
using nlohmann::json;

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[sizeof "2000-01-01T00:00:00Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string tactics_hash(const TacticFamily& family) {
  std::string list;
  for (std::size_t i = 0; i < family.size(); ++i) list += family.to_string(i) + '\n';
  return store::text_hash(list);
}

std::string problem_text(const GemmProblem& problem) {
  return fmt::format("gemm m{} n{} k{} {} {}", problem.m, problem.n, problem.k, to_string(problem.format),
                     to_string(problem.output));
}

/// What a stored run says of itself beyond its samples.
json details_of(const TuneReport& report) {
  const RungResult& result = report.result;
  return {{"legal", result.legal},
          {"stop", to_string(result.stop)},
          {"rounds", result.rounds},
          {"clock_ghz", result.clock_ghz},
          {"clock_drift", result.clock_drift},
          {"elapsed_s", result.elapsed_s},
          {"weights", report.weights_name},
          {"gflops", report.roofline.gflops},
          {"cold_gbps", report.roofline.cold_gbps},
          {"warm_gbps", report.roofline.warm_gbps},
          {"cold_set_bytes", report.cold_set_bytes},
          {"version", report.version}};
}

measure::StopReason stop_of(const std::string& text) {
  using measure::StopReason;
  for (const StopReason reason : {StopReason::kNoise, StopReason::kBudget, StopReason::kRounds}) {
    if (to_string(reason) == text) return reason;
  }
  return StopReason::kInterrupted;
}

/// False where the details are not what details_of writes: then the run is a miss.
bool read_details(const std::string& text, TuneReport& report) {
  const json details = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!details.is_object()) return false;
  try {
    details.at("legal").get_to(report.result.legal);
    report.result.stop = stop_of(details.at("stop").get<std::string>());
    details.at("rounds").get_to(report.result.rounds);
    details.at("clock_ghz").get_to(report.result.clock_ghz);
    details.at("clock_drift").get_to(report.result.clock_drift);
    details.at("elapsed_s").get_to(report.result.elapsed_s);
    details.at("weights").get_to(report.weights_name);
    details.at("gflops").get_to(report.roofline.gflops);
    details.at("cold_gbps").get_to(report.roofline.cold_gbps);
    details.at("warm_gbps").get_to(report.roofline.warm_gbps);
    details.at("cold_set_bytes").get_to(report.cold_set_bytes);
    details.at("version").get_to(report.version);
  } catch (const json::exception&) {
    return false;
  }
  return true;
}

class GemmTune {
 public:
  GemmTune(GemmTarget& target, Fp4Matrix weights, const TuneRequest& request, store::TuneStore* store,
           const TuneHooks& hooks)
      : target_(target), weights_(std::move(weights)), request_(request), store_(store), hooks_(hooks) {}

  Result<void> run() {
    for (const std::int64_t m : request_.m) PINCH_TRY(refuse_early(problem_of(m)));
    for (const std::int64_t m : request_.m) {
      PINCH_ASSIGN(report, one(problem_of(m)));
      hooks_.done(report);
      if (report.result.stop == measure::StopReason::kInterrupted) break;
    }
    return {};
  }

 private:
  [[nodiscard]] GemmProblem problem_of(std::int64_t m) const {
    return {m, weights_.n, weights_.k, weights_.format, request_.output};
  }

  /// Whatever can be known to be impossible is said before anything is measured.
  [[nodiscard]] Result<void> refuse_early(const GemmProblem& problem) const {
    PINCH_TRY(rank_tactics(target_.family(), problem, target_.resources()));
    return target_.check_memory(problem, request_.rung.policy, /*with_rivals=*/false);
  }

  [[nodiscard]] store::TuneKey key_of(const GemmProblem& problem) const {
    const std::string policy = fmt::format("{} {} all={} random={}", target_.protocol(), request_.rung.policy.text(),
                                           request_.rung.all, request_.rung.random_every);
    const Machine& machine = target_.machine();
    return {machine.device,
            machine.isa,
            machine.binary,
            tactics_hash(target_.family()),
            policy,
            problem_text(problem),
            std::to_string(target_.resources().threads),
            machine.compiler};
  }

  [[nodiscard]] TuneReport blank(const GemmProblem& problem) const {
    TuneReport report;
    report.problem = problem;
    report.resources = target_.resources();
    report.machine = target_.machine();
    report.policy = request_.rung.policy;
    report.weights_name = request_.weights_name;
    report.version = fmt::format("{} ({})", version(), git_sha());
    return report;
  }

  Result<TuneReport> one(const GemmProblem& problem) {
    const store::TuneKey key = key_of(problem);
    if (std::optional<TuneReport> known = look_up(problem, key)) return std::move(*known);
    TuneReport report = blank(problem);
    report.measured_at = now_utc();
    PINCH_TRY(prepare());
    report.cold_set_bytes = target_.cold_set_bytes();
    report.roofline = target_.roofline();
    PINCH_ASSIGN(gemm, target_.problem(problem.m, problem.output));
    StoreJournal journal(store_, key, hooks_.warn);
    measure::SystemClock clock;
    RungHooks hooks;
    hooks.stop_requested = hooks_.stop_requested;
    hooks.progress = [&](const Progress& progress) { hooks_.progress(problem, progress); };
    PINCH_ASSIGN(result, run_tactic_rung(gemm->subject(), gemm->sampler(), clock, request_.rung, journal, hooks));
    report.result = std::move(result);
    const bool complete = report.result.stop != measure::StopReason::kInterrupted;
    if (complete && report.result.conclusion.decided) journal.finish(details_of(report).dump());
    return report;
  }

  std::optional<TuneReport> look_up(const GemmProblem& problem, const store::TuneKey& key) {
    if (store_ == nullptr || request_.force) return std::nullopt;
    Result<std::optional<store::Run>> found = store_->find(key);
    if (!found) hooks_.warn(found.error());
    if (!found || !found->has_value()) return std::nullopt;
    store::Run& run = **found;
    TuneReport report = blank(problem);
    if (!read_details(run.details, report)) return std::nullopt;
    report.cached = true;
    report.measured_at = run.started_at;
    report.result.points = std::move(run.points);
    report.result.conclusion = conclude(report.result.points, request_.rung.policy);
    return report;
  }

  /// Once for every m, and only where something is measured at all.
  Result<void> prepare() {
    if (prepared_) return {};
    Fp4Matrix shape;
    shape.format = weights_.format;
    shape.n = weights_.n;
    shape.k = weights_.k;
    PINCH_TRY(target_.prepare(std::move(weights_), request_.rung.policy));
    weights_ = std::move(shape);
    prepared_ = true;
    return {};
  }

  GemmTarget& target_;
  Fp4Matrix weights_;  ///< its shape alone once the target holds the rest
  const TuneRequest& request_;
  store::TuneStore* store_;
  const TuneHooks& hooks_;
  bool prepared_ = false;
};

}  // namespace

Result<void> tune_gemm(GemmTarget& target, Fp4Matrix weights, const TuneRequest& request, store::TuneStore* store,
                       const TuneHooks& hooks) {
  return GemmTune(target, std::move(weights), request, store, hooks).run();
}

}  // namespace pinch::ladder
