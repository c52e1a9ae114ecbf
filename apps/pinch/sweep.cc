// pinch sweep: the knobs of any program, a fresh process for every point.
#include <fmt/core.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/cli.h"
#include "apps/pinch/enum_option.h"
#include "apps/pinch/interrupt.h"
#include "apps/pinch/sweep_progress.h"
#include "src/core/json_text.h"
#include "workbench/sweep/effort.h"
#include "workbench/sweep/replay.h"
#include "workbench/sweep/run.h"
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
  std::string spec, replay, csv, t4;
  sweep::RunRequest run;
  bool dry_run = false, list = false, strict = false;
  JsonOption json;
};

int show_plan(const Options& options, const sweep::Subject& subject, const InterruptGuard& interrupt) {
  sweep::Report report;
  report.subject = &subject;
  report.strategy = to_string(options.run.sweep.strategy);
  report.seed = options.run.sweep.seed;
  report.repeats = options.run.sweep.repeats;
  for (const sweep::Values& problem : sweep::problems(subject)) {
    const sweep::Space space(subject, problem, [&] { return interrupt.requested(); });
    sweep::ProblemResult result;
    const auto legal = sweep::plan(space, subject, result);
    if (!legal) return legal.error().code == ErrorCode::kInterrupted ? kSignalled : cli::report(legal.error());
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
        const auto effort = sweep::effort(space, subject, options.run.sweep, *legal);
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

int finish(const Options& options, const sweep::Report& report, bool interrupted) {
  fmt::print(options.json.on_stdout() ? stderr : stdout, "{}", sweep::to_text(report));
  std::fflush(stdout);
  if (!options.csv.empty()) {
    if (const auto done = write_result(options.csv, sweep::to_csv(report), "CSV"); !done)
      return cli::report(done.error());
  }
  if (!options.t4.empty()) {
    if (const auto done = write_result(options.t4, json_text(sweep::to_t4(report), 2) + "\n", "T4 results"); !done)
      return cli::report(done.error());
  }
  if (const auto done = options.json.write(sweep::to_json(report)); !done) return cli::report(done.error());
  if (interrupted) return kSignalled;
  return options.strict && report.failed() > 0 ? kFailed : kOk;
}

int replay(const Options& options) {
  auto recording = sweep::read_recording(options.replay);
  if (!recording) return report(recording.error());
  sweep::Subject& subject = recording->subject;
  sweep::ReplayExecutor executor(*recording);
  const sweep::Space space(subject, {});
  auto result = sweep::sweep_problem(space, subject, executor, options.run.sweep, {}, {});
  if (!result) return report(result.error());
  sweep::Report document;
  document.subject = &subject;
  document.strategy = to_string(options.run.sweep.strategy);
  document.device = recording->device;
  document.seed = options.run.sweep.seed;
  document.repeats = options.run.sweep.repeats;
  document.problems.push_back(std::move(*result));
  return finish(options, document, false);
}

int sweep_subject(Options& options) {
  if (!options.replay.empty()) return replay(options);
  const auto subject = sweep::read_subject(options.spec);
  if (!subject) return report(subject.error());
  if (const auto ready = sweep::prepare(*subject, options.run); !ready) return report(ready.error());
  const InterruptGuard interrupt;
  if (options.dry_run || options.list) return show_plan(options, *subject, interrupt);

  auto progress = std::make_unique<SweepProgress>();
  sweep::RunHooks hooks;
  hooks.stop_requested = [&] { return interrupt.requested(); };
  hooks.trial_ended = [&](std::size_t done, std::size_t total, const sweep::StoredTrial& trial) {
    progress->show(done, total, trial.key.point);
  };
  hooks.say = [](const std::string& text) { fmt::print(stderr, "pinch: {}\n", text); };
  const auto swept = sweep::run(*subject, options.run, hooks);
  progress.reset();
  if (!swept) return swept.error().code == ErrorCode::kInterrupted ? kSignalled : report(swept.error());
  return finish(options, *swept, interrupt.requested());
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
  add_enum(*command, "--strategy", options->run.sweep.strategy,
           {Strategy::kAll, Strategy::kRandom, Strategy::kHalving, Strategy::kLocal}, "Which points are run");
  command->add_option("--points", options->run.sweep.points, "Run at most so many points")
      ->check(CLI::Range(1, 1000000000));
  command
      ->add_option("--seconds", options->run.sweep.budget_s, "Start nothing new after so long a time, for each problem")
      ->check(CLI::PositiveNumber);
  command->add_option("--repeats", options->run.sweep.repeats, "Processes a point, in interleaved rounds")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command
      ->add_option("--seed", options->run.sweep.seed, "Of every random order; a sweep of another seed is another one")
      ->capture_default_str();
  command
      ->add_option("--devices", options->run.sweep.devices,
                   "Run on these devices, one point at a time on each, a point always on one")
      ->delimiter(',');
  add_enum(*command, "--engine", options->run.engine, {sweep::Engine::kLocal, sweep::Engine::kSlurm},
           "Where processes run; slurm goes through srun, and needs --db and --work on a shared file system");
  command->add_option("--jobs", options->run.jobs, "With --engine slurm: jobs in the queue at once")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--demonstrate", options->run.demonstrate,
                   "Run the nearest point that breaks this contract, on poisoned memory")
      ->type_name("CONTRACT")
      ->allow_extra_args(false);
  command->add_option("--db", options->run.database, "The SQLite file; default $PINCH_DB, else in the cache folder")
      ->type_name("FILE");
  command->add_option("--work", options->run.work, "Folder for inputs, builds and outputs; default beside the database")
      ->type_name("FOLDER");
  command->add_option("--build-jobs", options->run.build_jobs, "Builds at a time; default one a CPU")
      ->check(CLI::PositiveNumber);
  command->add_option("--csv", options->csv, "Write one row a point")->type_name("FILE");
  command->add_option("--t4", options->t4, "Write the results in the auto-tuners' exchange format T4")
      ->type_name("FILE");
  command->add_flag("--dry-run", options->dry_run, "Count the points and stop");
  command->add_flag("--list", options->list, "List the legal points and stop");
  command->add_flag("--fresh", options->run.fresh, "Forget what an earlier start of this sweep stored");
  command->add_flag("--strict", options->strict, "Exit 1 where a point did not end ok");
  options->json.add_to(*command);
  command->callback([options, spec, replayed, &status] {
    if (spec->count() == 0 && replayed->count() == 0) throw CLI::RequiredError("SPEC or --replay");
    status = sweep_subject(*options);
  });
}

}  // namespace pinch::cli
