#include "workbench/ladder/tune.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "pinch/version.h"
#include "src/core/json_text.h"
#include "workbench/ladder/tune_evidence.h"
#include "workbench/measure/clock.h"
#include "workbench/store/binary_hash.h"

namespace pinch::ladder {

namespace {

using json = nlohmann::ordered_json;

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

json silence_json(const Silence& silence) {
  return {{"applies", silence.answer != Answer::kNotApplicable}, {"why", silence.why}};
}
Silence stored_silence(const json& stored) {
  return {stored.at("applies").get<bool>() ? Answer::kNotMeasured : Answer::kNotApplicable,
          stored.at("why").get<std::string>()};
}

json waiting_json(const Known<Waiting>& known) {
  if (const auto* waiting = std::get_if<Waiting>(&known))
    return {{"share", waiting->share},
            {"slowed", waiting->slowed ? json(*waiting->slowed) : json(nullptr)},
            {"for_whom", waiting->for_whom},
            {"evidence", waiting->evidence}};
  return silence_json(std::get<Silence>(known));
}

Known<Waiting> stored_waiting(const json& stored) {
  if (stored.contains("share")) {
    const json& slowed = stored.at("slowed");
    return Waiting{stored["share"].get<double>(), slowed.is_null() ? std::nullopt : std::optional(slowed.get<double>()),
                   stored.at("for_whom").get<std::string>(), stored.at("evidence")};
  }
  return stored_silence(stored);
}

json code_json(const Known<Code>& known) {
  if (const auto* code = std::get_if<Code>(&known))
    return {{"binds", code->binds},
            {"schedule_share", code->schedule_share},
            {"schedule_words", code->schedule_words},
            {"algebra_share", code->algebra_share},
            {"algebra_words", code->algebra_words},
            {"evidence", code->evidence}};
  return silence_json(std::get<Silence>(known));
}

Known<Code> stored_code(const json& stored) {
  if (!stored.contains("binds")) return stored_silence(stored);
  Code code;
  stored.at("binds").get_to(code.binds);
  stored.at("schedule_share").get_to(code.schedule_share);
  stored.at("schedule_words").get_to(code.schedule_words);
  stored.at("algebra_share").get_to(code.algebra_share);
  stored.at("algebra_words").get_to(code.algebra_words);
  code.evidence = stored.at("evidence");
  return code;
}

/// What a stored run says of itself beyond its samples.
json details_of(const TuneReport& report) {
  const RungResult& result = report.result;
  return {{"legal", result.legal},
          {"waiting", waiting_json(report.waiting)},
          {"code", code_json(report.code)},
          {"explained_s", report.explained_s},
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
    report.waiting = stored_waiting(details.at("waiting"));
    report.code = stored_code(details.at("code"));
    details.at("explained_s").get_to(report.explained_s);
  } catch (const json::exception&) {
    return false;
  }
  return true;
}

store::TuneKey key_of(const Task& task, const TuneRequest& request) {
  const std::string policy = fmt::format("{} {} all={} random={} rungs={}", task.protocol(), request.rung.policy.text(),
                                         request.rung.all, request.rung.random_every, request.selection.text());
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

void find(const Task& task, const TuneRequest& request, std::span<const RankedTactic> ranked, TuneReport& report) {
  const Evidence evidence = evidence_of(task, ranked, report);
  report.findings = climb(evidence, request.selection);
  for (const Setting& setting : evidence.settings.list) report.knobs[setting.name] = setting.knobs;
}

template <class T>
Known<T> known_or_why(Result<T> read) {
  if (read.ok()) return std::move(*read);
  const bool applies = read.error().code != ErrorCode::kIllegal;
  return Silence{applies ? Answer::kNotMeasured : Answer::kNotApplicable, read.error().message()};
}

/// A trace explains and ranks nothing, so it is taken when all is measured, of the fastest tactic.
Known<Waiting> waiting_of(Task& task, const TuneRequest& request, const TuneReport& report, const TuneHooks& hooks) {
  constexpr double kTracedCalls = 20, kMostShare = 0.5;
  const std::string& tactic = report.result.conclusion.fastest;
  if (!request.selection.asks(Rung::kPipeline) || tactic.empty())
    return Silence{Answer::kNotMeasured, "no tactic was timed"};
  for (const store::Point& point : report.result.points) {
    if (point.tactic != tactic) continue;
    const double call_ns = measure::summarize(accepted_ns(point.samples, report.policy.protocols.front())).median;
    if (kTracedCalls * call_ns > kMostShare * 1e9 * report.policy.budget_s)
      return Silence{Answer::kNotMeasured, "a traced run takes about twenty calls, more than half of the budget"};
  }
  return known_or_why(task.waits(tactic, hooks.stop_requested));
}

/// Reading machine code takes no time of the device.
Known<Code> code_of(Task& task, const TuneRequest& request, const TuneReport& report) {
  const bool asked = request.selection.asks(Rung::kSchedule) || request.selection.asks(Rung::kAlgebra);
  const std::string& tactic = report.result.conclusion.fastest;
  if (!asked || (tactic.empty() && report.resources.sm_count > 0))
    return Silence{Answer::kNotMeasured, "no tactic was timed"};
  return known_or_why(task.code(tactic));
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
  report.run = run.id;
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
  PINCH_ASSIGN(ranked, task.ranked());
  const store::TuneKey key = key_of(task, request);
  if (std::optional<TuneReport> known = look_up(task, request, store, hooks, key)) {
    find(task, request, ranked, *known);
    return std::move(*known);
  }
  TuneReport report = blank(task, request);
  report.measured_at = now_utc();
  PINCH_TRY(task.prepare(request.rung.policy));
  report.cold_set_bytes = task.cold_set_bytes();
  report.roofline = task.roofline();
  StoreJournal journal(store, key, hooks.warn);
  measure::SystemClock clock;
  RungOptions options = request.rung;
  const auto asked = [&](Rung rung) { return request.selection.asks(rung); };
  options.default_only = !asked(Rung::kAlgebra) && !asked(Rung::kHandoff) && !asked(Rung::kTactic);
  PINCH_ASSIGN(result, run_tactic_rung(task.subject(), task.sampler(), clock, options, journal,
                                       {hooks.progress, hooks.stop_requested}));
  report.result = std::move(result);
  if (report.result.stop != measure::StopReason::kInterrupted) {
    if (hooks.progress) hooks.progress({"explain", 0, 1, report.result.elapsed_s});
    const double begin_ns = clock.wall_ns();
    report.waiting = waiting_of(task, request, report, hooks);
    report.code = code_of(task, request, report);
    report.explained_s = (clock.wall_ns() - begin_ns) / 1e9;
    if (hooks.stop_requested && hooks.stop_requested()) report.result.stop = measure::StopReason::kInterrupted;
  }
  const bool complete = report.result.stop != measure::StopReason::kInterrupted;
  if (complete && report.result.conclusion.decided) {
    journal.finish(json_text(details_of(report)));
    report.run = journal.run();
  }
  find(task, request, ranked, report);
  return report;
}

}  // namespace pinch::ladder
