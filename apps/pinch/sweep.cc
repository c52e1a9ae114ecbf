// pinch sweep: the knobs of any program, a fresh process for every point.
#include <fmt/core.h>
#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/pinch/cli.h"
#include "apps/pinch/enum_option.h"
#include "apps/pinch/interrupt.h"
#include "apps/pinch/progress_bar.h"
#include "workbench/check/environment.h"
#include "workbench/store/location.h"
#include "workbench/sweep/effort.h"
#include "workbench/sweep/executor.h"
#include "workbench/sweep/replay.h"
#include "workbench/sweep/sweep.h"
#include "workbench/sweep/sweep_report.h"

namespace pinch::cli {
namespace {

using sweep::Strategy;

constexpr const char* kSweepExamples = R"(Examples:
  pinch sweep subject.toml
  pinch sweep subject.toml --strategy random --points 50 --json -
  pinch sweep subject.toml --demonstrate 'stages * tile <= 4096'
  pinch sweep --replay recorded.json --strategy local --points 40

The same command resumes what was stopped. docs/subject.md describes the file.)";

struct Options {
  std::string spec, replay, database, work, csv, t4;
  sweep::Options sweep;
  std::vector<std::string> demonstrate;
  bool dry_run = false, list = false, fresh = false, strict = false;
  int build_jobs = 0, jobs = 1;
  sweep::Engine engine = sweep::Engine::kLocal;
  JsonOption json;
};

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
Result<void> prepare_slurm(Options& options, const sweep::Subject& subject) {
  const char* wrong = subject.metric.kind == sweep::MetricKind::kWall
                          ? "metric.kind = \"wall\" would time the queue; let the program report its time"
                      : !subject.cpus.empty()          ? "limits.cpus names CPUs of this machine; leave it out"
                      : !options.sweep.devices.empty() ? "--devices names devices of this machine; give limits.gpus"
                                                       : nullptr;
  if (wrong != nullptr)
    return Error{ErrorCode::kInvalidArgument, std::string("--engine slurm: ") + wrong, subject.file};
  options.sweep.devices.assign(static_cast<std::size_t>(options.jobs), "");
  return {};
}

int show_plan(const Options& options, const sweep::Subject& subject) {
  sweep::Report report;
  report.subject = &subject;
  report.strategy = to_string(options.sweep.strategy);
  report.seed = options.sweep.seed;
  report.repeats = options.sweep.repeats;
  for (const sweep::Values& problem : sweep::problems(subject)) {
    const sweep::Space space(subject, problem);
    sweep::ProblemResult result;
    const auto legal = sweep::plan(space, subject, result);
    if (!legal) return cli::report(legal.error());
    result.not_run = result.legal;
    if (!options.json.on_stdout()) {
      fmt::print("{}{}{}: {} legal of {:.0f} combinations\n", subject.name, result.text.empty() ? "" : " at ",
                 result.text, result.legal, result.combinations);
      for (const auto& each : result.excluded) {
        fmt::print("  refused {:.0f} by '{}': {}\n", each.count, each.rule->id, each.rule->reason);
      }
      if (options.list) {
        for (const sweep::Choice& choice : *legal) fmt::print("  {}\n", space.text(choice));
      } else {
        const auto effort = sweep::effort(space, subject, options.sweep, *legal);
        if (!effort) return cli::report(effort.error());
        fmt::print(
            "  would run {} processes, {} if all points tie; two more to confirm a winner other than the default\n",
            effort->least, effort->most);
      }
    }
    if (options.list) {
      for (const sweep::Choice& choice : *legal) {
        sweep::Measured point;
        point.choice = choice;
        result.points.push_back(std::move(point));
      }
    }
    report.problems.push_back(std::move(result));
  }
  auto document = sweep::to_json(report);
  for (auto& point : document["points"]) {
    if (point["verdict"] == "ok") point["verdict"] = nullptr;  // nothing was run
  }
  const auto written = options.json.write(document);
  return written ? kOk : cli::report(written.error());
}

// The legal point nearest to the default but for the one rule, which it breaks.
Result<sweep::Choice> breaking_point(const sweep::Subject& subject, const sweep::Values& problem, std::size_t rule) {
  sweep::Subject opposite = subject;
  PINCH_ASSIGN(broken, sweep::Expression::parse("not (" + subject.rules[rule].require.text() + ")",
                                                subject.rules[rule].require.where()));
  opposite.rules[rule].require = std::move(broken);
  const sweep::Space space(opposite, problem);
  const sweep::Choice standard = space.standard();
  std::optional<std::pair<std::size_t, sweep::Choice>> nearest;
  PINCH_TRY(space.each_legal(
      [&](const sweep::Choice& choice) {
        std::size_t changed = 0;
        for (std::size_t i = 0; i < choice.size(); ++i) changed += choice[i] != standard[i] ? 1 : 0;
        if (!nearest || std::pair(changed, choice) < *nearest) nearest.emplace(changed, choice);
        return true;
      },
      nullptr));
  if (!nearest) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("no combination breaks '{}' alone", subject.rules[rule].id),
                 subject.rules[rule].require.where()};
  }
  return nearest->second;
}

// Places in subject.rules of the contracts that --demonstrate names.
Result<std::vector<std::size_t>> contracts_to_break(const Options& options, const sweep::Subject& subject) {
  std::vector<std::string> known;
  for (const sweep::Rule& rule : subject.rules) {
    if (rule.contract) known.push_back("'" + rule.id + "'");
  }
  std::vector<std::size_t> places;
  for (const std::string& id : options.demonstrate) {
    const auto found = std::find_if(subject.rules.begin(), subject.rules.end(),
                                    [&](const sweep::Rule& rule) { return rule.contract && rule.id == id; });
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

Result<void> demonstrate(const std::vector<std::size_t>& contracts, const sweep::Subject& subject,
                         const sweep::Values& problem, sweep::ProcessExecutor& executor, sweep::Report& report) {
  const sweep::Space space(subject, problem);
  for (const std::size_t contract : contracts) {
    PINCH_ASSIGN(choice, breaking_point(subject, problem, contract));
    PINCH_ASSIGN(shown, executor.demonstrate(space, choice, 5));
    report.demonstrations.push_back(
        {&subject.rules[contract], sweep::problem_text(subject, problem), std::move(shown)});
  }
  return {};
}

int finish(const Options& options, const sweep::Report& report, bool interrupted) {
  fmt::print(options.json.on_stdout() ? stderr : stdout, "{}", sweep::to_text(report));
  std::fflush(stdout);
  if (!options.csv.empty()) {
    if (const auto done = write_result(options.csv, sweep::to_csv(report), "CSV"); !done)
      return cli::report(done.error());
  }
  if (!options.t4.empty()) {
    if (const auto done = write_result(options.t4, sweep::to_t4(report).dump(2) + "\n", "T4 results"); !done)
      return cli::report(done.error());
  }
  if (const auto done = options.json.write(sweep::to_json(report)); !done) return cli::report(done.error());
  if (interrupted) return kSignalled;
  return options.strict && report.failed() > 0 ? kFailed : kOk;
}

// "done/total, about 12 s left: tile=16,layout=row"
class Progress {
 public:
  void show(std::size_t done, std::size_t total, const std::string& what) {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const double left = done == 0 ? 0 : elapsed / static_cast<double>(done) * static_cast<double>(total - done);
    bar_.show(static_cast<double>(done), static_cast<double>(total),
              fmt::format("{}/{}, about {:.0f} s left: {}", done, total, left, what));
  }

 private:
  ProgressBar bar_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int replay(const Options& options) {
  auto recording = sweep::read_recording(options.replay);
  if (!recording) return report(recording.error());
  sweep::Subject& subject = recording->subject;
  sweep::ReplayExecutor executor(*recording);
  const sweep::Space space(subject, {});
  auto result = sweep::sweep_problem(space, subject, executor, options.sweep, {}, {});
  if (!result) return report(result.error());
  sweep::Report document;
  document.subject = &subject;
  document.strategy = to_string(options.sweep.strategy);
  document.device = recording->device;
  document.seed = options.sweep.seed;
  document.repeats = options.sweep.repeats;
  document.problems.push_back(std::move(*result));
  return finish(options, document, false);
}

// What trials have in common beside the subject: of another seed, other devices or another machine they are no samples
// of the same thing.
std::string settings_text(const Options& options, const nlohmann::ordered_json& environment) {
  return fmt::format("seed {} devices {} engine {} on {}", options.sweep.seed, fmt::join(options.sweep.devices, "|"),
                     to_string(options.engine), check::machine_text(environment));
}

int sweep_subject(Options& options) {
  if (!options.replay.empty()) return replay(options);
  const auto subject = sweep::read_subject(options.spec);
  if (!subject) return report(subject.error());
  options.sweep.policy.lower_is_better = subject->metric.lower_is_better;
  const auto contracts = contracts_to_break(options, *subject);
  if (!contracts) return report(contracts.error());
  auto devices = device_sets(options.sweep.devices, subject->gpus);
  if (!devices) return report(devices.error());
  options.sweep.devices = *devices;
  if (options.engine == sweep::Engine::kSlurm) {
    if (const auto ready = prepare_slurm(options, *subject); !ready) return report(ready.error());
  }
  if (options.dry_run || options.list) return show_plan(options, *subject);

  const auto path = store::database_path(options.database);
  if (!path) return report(path.error());
  const auto environment = check::environment();
  const auto key = sweep::sweep_key(*subject, settings_text(options, environment));
  if (!key) return report(key.error());
  auto store = sweep::SweepStore::open(*path);
  if (!store) return report(store.error());

  const InterruptGuard interrupt;
  const auto stop = [&] { return interrupt.requested(); };
  bool told = false;
  const auto begun =
      store->begin({*key, subject->name, options.sweep.seed, environment.dump(), options.fresh}, [&](int pid) {
        if (!told) fmt::print(stderr, "pinch: process {} runs this sweep; waiting, its trials count here too\n", pid);
        told = true;
        return !stop();
      });
  if (!begun) return begun.error().code == ErrorCode::kInterrupted ? kSignalled : report(begun.error());
  const auto stored = store->trials();
  if (!stored) return report(stored.error());
  if (!stored->empty())
    fmt::print(stderr, "pinch: {} trials from an earlier start; --fresh forgets them\n", stored->size());

  std::error_code ignored;
  sweep::Places places;
  places.work = options.work.empty() ? std::filesystem::absolute(*path, ignored).parent_path().string() + "/sweeps"
                                     : options.work;
  places.work = std::filesystem::absolute(places.work, ignored);
  places.token = store->token();
  places.device = options.sweep.devices.empty() ? "" : options.sweep.devices.front();
  places.engine = options.engine;
  places.fresh = options.fresh;
  places.build_jobs =
      options.build_jobs > 0 ? options.build_jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  sweep::ProcessExecutor executor(*subject, places, *key, stop);
  auto progress = std::make_unique<Progress>();
  sweep::Hooks hooks;
  hooks.stop_requested = stop;
  hooks.store = [&](const sweep::StoredTrial& trial) { return store->add(trial); };
  hooks.trial_ended = [&](std::size_t done, std::size_t total, const sweep::StoredTrial& trial) {
    progress->show(done, total, trial.key.point);
  };

  sweep::Report document;
  document.subject = &*subject;
  document.key = *key;
  document.database = *path;
  document.environment = environment;
  document.reused = stored->size();
  document.strategy = to_string(options.sweep.strategy);
  document.seed = options.sweep.seed;
  document.repeats = options.sweep.repeats;
  std::optional<Error> error;
  for (const sweep::Values& problem : sweep::problems(*subject)) {
    const sweep::Space space(*subject, problem);
    auto result = sweep::sweep_problem(space, *subject, executor, options.sweep, *stored, hooks);
    if (!result) {
      error = result.error();
      break;
    }
    document.problems.push_back(std::move(*result));
    document.inputs = executor.inputs();
    if (!executor.baseline_failure().empty()) {
      document.warnings.push_back(
          fmt::format("outputs were not compared: the default itself ended in {}", executor.baseline_failure()));
    }
    if (const auto shown = demonstrate(*contracts, *subject, problem, executor, document); !shown) {
      error = shown.error();
      break;
    }
    if (interrupt.requested()) break;
  }
  progress.reset();
  const auto starts = store->starts();
  const auto left = store->leave();
  if (error && error->code != ErrorCode::kInterrupted) return report(*error);
  if (!starts) return report(starts.error());
  if (!left) return report(left.error());
  document.starts = *starts;
  return finish(options, document, interrupt.requested());
}

}  // namespace

void add_sweep(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("sweep", "Sweep the knobs of any program, a fresh process for every point");
  command->footer(kSweepExamples);
  auto options = std::make_shared<Options>();
  auto* spec = command->add_option("spec", options->spec, "The subject's TOML file")->type_name("SPEC");
  auto* replayed =
      command->add_option("--replay", options->replay, "Replay a cache file of Kernel Tuner instead; runs nothing")
          ->type_name("FILE")
          ->excludes(spec);
  add_enum(*command, "--strategy", options->sweep.strategy,
           {Strategy::kAll, Strategy::kRandom, Strategy::kHalving, Strategy::kLocal}, "Which points are run");
  command->add_option("--points", options->sweep.points, "Run at most so many points")->check(CLI::PositiveNumber);
  command->add_option("--seconds", options->sweep.budget_s, "Start nothing new after so long a time, for each problem")
      ->check(CLI::PositiveNumber);
  command->add_option("--repeats", options->sweep.repeats, "Processes a point, in interleaved rounds")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--seed", options->sweep.seed, "Of every random order; a sweep of another seed is another one")
      ->capture_default_str();
  command
      ->add_option("--devices", options->sweep.devices,
                   "Run on these devices, one point at a time on each, a point always on one")
      ->delimiter(',');
  add_enum(*command, "--engine", options->engine, {sweep::Engine::kLocal, sweep::Engine::kSlurm},
           "Where processes run; slurm goes through srun, and needs --db and --work on a shared file system");
  command->add_option("--jobs", options->jobs, "With --engine slurm: jobs in the queue at once")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--demonstrate", options->demonstrate,
                   "Run the nearest point that breaks this contract, on poisoned memory")
      ->type_name("CONTRACT")
      ->allow_extra_args(false);
  command->add_option("--db", options->database, "The SQLite file; default $PINCH_DB, else in the cache folder")
      ->type_name("FILE");
  command->add_option("--work", options->work, "Folder for inputs, builds and outputs; default beside the database")
      ->type_name("FOLDER");
  command->add_option("--build-jobs", options->build_jobs, "Builds at a time; default one a CPU")
      ->check(CLI::PositiveNumber);
  command->add_option("--csv", options->csv, "Write one row a point")->type_name("FILE");
  command->add_option("--t4", options->t4, "Write the results in the auto-tuners' exchange format T4")
      ->type_name("FILE");
  command->add_flag("--dry-run", options->dry_run, "Count the points and stop");
  command->add_flag("--list", options->list, "List the legal points and stop");
  command->add_flag("--fresh", options->fresh, "Forget what an earlier start of this sweep stored");
  command->add_flag("--strict", options->strict, "Exit 1 where a point did not end ok");
  options->json.add_to(*command);
  command->callback([options, spec, replayed, &status] {
    if (spec->count() == 0 && replayed->count() == 0) throw CLI::RequiredError("SPEC or --replay");
    status = sweep_subject(*options);
  });
}

}  // namespace pinch::cli
