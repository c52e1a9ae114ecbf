#include "workbench/sweep/run.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "src/core/json_text.h"
#include "workbench/check/environment.h"
#include "workbench/store/location.h"

namespace pinch::sweep {
namespace {

// Devices of which each trial gets `each`: "0,1,2,3" by two are "0,1" and "2,3".
Result<std::vector<std::string>> device_sets(const std::vector<std::string>& devices, int each) {
  if (each < 2 || devices.empty()) return devices;  // without --devices they are left to the program
  const auto size = static_cast<std::size_t>(each);
  if (devices.size() < size) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} devices given; the subject needs {} for a point", devices.size(), each), "--devices"};
  }
  std::vector<std::string> sets;
  for (std::size_t i = 0; i + size <= devices.size(); i += size) {
    sets.push_back(devices[i]);
    for (std::size_t j = 1; j < size; ++j) sets.back() += "," + devices[i + j];
  }
  return sets;
}

// What only makes sense on this machine is refused, and so many jobs wait in the queue at once.
Result<void> prepare_slurm(RunRequest& request, const Subject& subject) {
  const char* wrong = subject.metric.kind == MetricKind::kWall
                          ? "metric.kind = \"wall\" would time the queue; let the program report its time"
                      : !subject.cpus.empty()          ? "limits.cpus names CPUs of this machine; leave it out"
                      : !request.sweep.devices.empty() ? "--devices names devices of this machine; give limits.gpus"
                                                       : nullptr;
  if (wrong != nullptr)
    return Error{ErrorCode::kInvalidArgument, std::string("--engine slurm: ") + wrong, subject.file};
  request.sweep.devices.assign(static_cast<std::size_t>(request.jobs), "");
  return {};
}

constexpr std::size_t kBreakingSteps = 2'000'000;  // about two seconds

// The legal point nearest to the default but for the one rule, which it breaks.
Result<Choice> breaking_point(const Subject& subject, const Values& problem, std::size_t rule,
                              const std::function<bool()>& stop_requested) {
  Subject opposite = subject;
  PINCH_ASSIGN(broken, Expression::parse("not (" + subject.rules[rule].require.text() + ")",
                                         subject.rules[rule].require.where()));
  opposite.rules[rule].require = std::move(broken);
  const Space space(opposite, problem, stop_requested);
  PINCH_ASSIGN(nearest, space.nearest_legal(space.standard(), kBreakingSteps));
  if (nearest.choice) return *nearest.choice;
  const std::string& id = subject.rules[rule].id;
  return Error{
      ErrorCode::kInvalidArgument,
      nearest.gave_up
          ? fmt::format("no combination that breaks '{}' alone was found in {} steps, up to {} knobs away from "
                        "the default; there may be one farther away",
                        id, kBreakingSteps, nearest.changed)
          : fmt::format("no combination breaks '{}' alone", id),
      subject.rules[rule].require.where()};
}

// Places in subject.rules of the contracts that --demonstrate names.
Result<std::vector<std::size_t>> contracts_to_break(const RunRequest& request, const Subject& subject) {
  std::vector<std::string> known;
  for (const Rule& rule : subject.rules) {
    if (rule.contract) known.push_back("'" + rule.id + "'");
  }
  std::vector<std::size_t> places;
  for (const std::string& id : request.demonstrate) {
    const auto found = std::find_if(subject.rules.begin(), subject.rules.end(),
                                    [&](const Rule& rule) { return rule.contract && rule.id == id; });
    if (found == subject.rules.end()) {
      return Error{ErrorCode::kInvalidArgument,
                   known.empty() ? fmt::format("there is no '{}': {} has no [[contract]]", id, subject.file)
                                 : fmt::format("'{}' is no contract; there are: {}", id, fmt::join(known, ", ")),
                   "--demonstrate"};
    }
    places.push_back(static_cast<std::size_t>(found - subject.rules.begin()));
  }
  return places;
}

Result<void> demonstrate(const std::vector<std::size_t>& contracts, const Subject& subject, const Values& problem,
                         ProcessExecutor& executor, const std::function<bool()>& stop_requested, Report& report) {
  const Space space(subject, problem);
  for (const std::size_t contract : contracts) {
    PINCH_ASSIGN(choice, breaking_point(subject, problem, contract, stop_requested));
    PINCH_ASSIGN(shown, executor.demonstrate(space, choice, 5));
    report.demonstrations.push_back({&subject.rules[contract], problem_text(subject, problem), std::move(shown)});
  }
  return {};
}

// What trials have in common beside the subject: of another seed, other devices or another machine they are no samples
// of the same thing.
std::string settings_text(const RunRequest& request, const nlohmann::ordered_json& environment) {
  return fmt::format("seed {} devices {} engine {} on {}", request.sweep.seed, fmt::join(request.sweep.devices, "|"),
                     to_string(request.engine), check::machine_text(environment));
}

// Where inputs, builds and outputs go, and how.
Places places_of(const RunRequest& request, const std::string& database) {
  std::error_code ignored;
  Places places;
  places.work = request.work.empty() ? std::filesystem::absolute(database, ignored).parent_path().string() + "/sweeps"
                                     : request.work;
  places.work = std::filesystem::absolute(places.work, ignored);
  places.device = request.sweep.devices.empty() ? "" : request.sweep.devices.front();
  places.engine = request.engine;
  places.fresh = request.fresh;
  places.build_jobs =
      request.build_jobs > 0 ? request.build_jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return places;
}

// Every problem in turn, until one fails or the sweep is stopped.
Result<void> sweep_problems(const Subject& subject, const RunRequest& request,
                            const std::vector<std::size_t>& contracts, const std::vector<StoredTrial>& stored,
                            ProcessExecutor& executor, const Hooks& hooks, Report& report) {
  for (const Values& problem : problems(subject)) {
    const Space space(subject, problem, hooks.stop_requested);
    PINCH_ASSIGN(result, sweep_problem(space, subject, executor, request.sweep, stored, hooks));
    report.problems.push_back(std::move(result));
    report.inputs = executor.inputs();
    if (!executor.baseline_failure().empty()) {
      report.warnings.push_back(
          fmt::format("outputs were not compared: the default itself ended in {}", executor.baseline_failure()));
    }
    PINCH_TRY(demonstrate(contracts, subject, problem, executor, hooks.stop_requested, report));
    if (hooks.stop_requested()) break;
  }
  return {};
}

}  // namespace

Result<void> prepare(const Subject& subject, RunRequest& request) {
  PINCH_TRY(contracts_to_break(request, subject));
  request.sweep.policy.lower_is_better = subject.metric.lower_is_better;
  PINCH_ASSIGN(devices, device_sets(request.sweep.devices, subject.gpus));
  request.sweep.devices = std::move(devices);
  return request.engine == Engine::kSlurm ? prepare_slurm(request, subject) : Result<void>();
}

Result<Report> run(const Subject& subject, const RunRequest& request, const RunHooks& hooks) {
  PINCH_ASSIGN(contracts, contracts_to_break(request, subject));
  PINCH_ASSIGN(path, store::database_path(request.database));
  const auto environment = check::environment();
  PINCH_ASSIGN(key, sweep_key(subject, settings_text(request, environment)));
  PINCH_ASSIGN(store, SweepStore::open(path));
  bool told = false;
  PINCH_TRY(store.begin({key, subject.name, request.sweep.seed, json_text(environment), request.fresh}, [&](int pid) {
    if (!told) hooks.say(fmt::format("process {} runs this sweep; waiting, its trials count here too", pid));
    told = true;
    return !hooks.stop_requested();
  }));
  PINCH_ASSIGN(stored, store.trials());
  if (!stored.empty()) hooks.say(fmt::format("{} trials from an earlier start; --fresh forgets them", stored.size()));

  Report report;
  report.subject = &subject;
  report.key = key;
  report.database = path;
  report.environment = environment;
  report.reused = stored.size();
  report.strategy = to_string(request.sweep.strategy);
  report.seed = request.sweep.seed;
  report.repeats = request.sweep.repeats;
  Places places = places_of(request, path);
  places.token = store.token();
  ProcessExecutor executor(subject, std::move(places), key, hooks.stop_requested);
  Hooks each;
  each.stop_requested = hooks.stop_requested;
  each.store = [&](const StoredTrial& trial) { return store.add(trial); };
  each.trial_ended = hooks.trial_ended;
  const auto swept = sweep_problems(subject, request, contracts, stored, executor, each, report);
  auto starts = store.starts();
  const auto left = store.leave();
  if (!swept && swept.error().code != ErrorCode::kInterrupted) return swept.error();
  if (!starts) return starts.error();
  if (!left) return left.error();
  report.starts = std::move(*starts);
  return report;
}

}  // namespace pinch::sweep
