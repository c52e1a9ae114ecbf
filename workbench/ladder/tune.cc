#include "workbench/ladder/tune.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "pinch/version.h"
#include "workbench/measure/clock.h"
#include "workbench/store/binary_hash.h"

namespace pinch::ladder {

namespace {

using nlohmann::json;

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[sizeof "2000-01-01T00:00:00Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string tactics_hash(const TacticList& family) {
  std::string list;
  for (std::size_t i = 0; i < family.size(); ++i) list += family.to_string(i) + '\n';
  return store::text_hash(list);
}

/// "gemm m1 n4096 k4096 nvfp4 bf16": distinct for distinct problems, because the order of the sizes is fixed.
struct SizeText {
  std::string_view name;
  std::string operator()(std::int64_t value) const { return fmt::format(" {}{}", name, value); }
  std::string operator()(bool value) const { return value ? fmt::format(" {}", name) : ""; }
  std::string operator()(const std::string& value) const { return " " + value; }
  std::string operator()(const KnobPair& value) const { return fmt::format(" {}{}x{}", name, value[0], value[1]); }
};
std::string problem_text(const Work& work) {
  std::string text(work.subject);
  for (const auto& [name, value] : work.sizes) text += std::visit(SizeText{name}, value);
  return text;
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
          {"weights", report.work.inputs},
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
    details.at("weights").get_to(report.work.inputs);
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

store::TuneKey key_of(const Task& task, const TuneRequest& request) {
  const std::string policy = fmt::format("{} {} all={} random={}", task.protocol(), request.rung.policy.text(),
                                         request.rung.all, request.rung.random_every);
  const Machine& machine = task.machine();
  return {machine.device,
          machine.isa,
          machine.binary,
          tactics_hash(task.family()),
          policy,
          problem_text(task.work()),
          std::to_string(task.resources().threads),
          machine.compiler};
}

TuneReport blank(const Task& task, const TuneRequest& request) {
  TuneReport report;
  report.work = task.work();
  report.resources = task.resources();
  report.machine = task.machine();
  report.policy = request.rung.policy;
  report.version = fmt::format("{} ({})", version(), git_sha());
  return report;
}

std::optional<TuneReport> look_up(const Task& task, const TuneRequest& request, store::TuneStore* store,
                                  const TuneHooks& hooks, const store::TuneKey& key) {
  if (store == nullptr || request.force) return std::nullopt;
  Result<std::optional<store::Run>> found = store->find(key);
  if (!found) hooks.warn(found.error());
  if (!found || !found->has_value()) return std::nullopt;
  store::Run& run = **found;
  TuneReport report = blank(task, request);
  if (!read_details(run.details, report)) return std::nullopt;
  report.cached = true;
  report.measured_at = run.started_at;
  report.result.points = std::move(run.points);
  report.result.conclusion = conclude(report.result.points, request.rung.policy);
  return report;
}

}  // namespace

Result<void> refuse_early(const Task& task, const TuneRequest& request) {
  PINCH_TRY(task.ranked());
  return task.check_memory(request.rung.policy, /*with_rivals=*/false);
}

Result<TuneReport> tune(Task& task, const TuneRequest& request, store::TuneStore* store, const TuneHooks& hooks) {
  PINCH_TRY(refuse_early(task, request));
  const store::TuneKey key = key_of(task, request);
  if (std::optional<TuneReport> known = look_up(task, request, store, hooks, key)) return std::move(*known);
  TuneReport report = blank(task, request);
  report.measured_at = now_utc();
  PINCH_TRY(task.prepare(request.rung.policy));
  report.cold_set_bytes = task.cold_set_bytes();
  report.roofline = task.roofline();
  StoreJournal journal(store, key, hooks.warn);
  measure::SystemClock clock;
  PINCH_ASSIGN(result, run_tactic_rung(task.subject(), task.sampler(), clock, request.rung, journal,
                                       {hooks.progress, hooks.stop_requested}));
  report.result = std::move(result);
  const bool complete = report.result.stop != measure::StopReason::kInterrupted;
  if (complete && report.result.conclusion.decided) journal.finish(details_of(report).dump());
  return report;
}

}  // namespace pinch::ladder
