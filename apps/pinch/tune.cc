// pinch tune: the main job.
#include <fmt/core.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include "apps/pinch/cli.h"
#include "apps/pinch/enum_option.h"
#include "apps/pinch/gemm_options.h"
#include "apps/pinch/interrupt.h"
#include "apps/pinch/measure_options.h"
#include "apps/pinch/progress_bar.h"
#include "workbench/ladder/gemm_tune.h"
#include "workbench/report/tune_report.h"
#include "workbench/store/location.h"

namespace pinch::cli {
namespace {

using measure::Protocol;
using nlohmann::ordered_json;

constexpr const char* kTuneExamples = R"(Examples:
  pinch tune gemm --m 1,8,32 --n 4096 --k 4096
  pinch tune gemm --weights model.safetensors --tensor layers.0.mlp.up_proj.weight --m 1 --format mxfp4
  pinch tune gemm --m 512 --n 4096 --k 4096 --all --json - | jq '.picks[0]'
  pinch tune gemm --device cuda --m 1,16,512 --n 4096 --k 4096

Each tactic is compared with an FP64 reference before it is timed. Times are medians over interleaved rounds: cold, where
every call takes other weights from a set larger than the caches, and warm, where the same weights come again. Cold times
rank, because a model's layers push each other's weights out; --rank-by warm suits models that stay in the caches.
A second tune of the same problem on the same machine, program and policy reads the stored result.)";

struct TuneOptions {
  GemmOptionGroup gemm;
  MeasureOptionGroup measure;
  bool all = false;
  bool force = false;
  Protocol rank_by = Protocol::kCold;
  std::string database;
  JsonOption json;
};

void warn(const Error& error) {
  fmt::print(stderr, "pinch: warning: {}; the result is not stored\n", error.message());
}

std::optional<store::TuneStore> open_store(const TuneOptions& options) {
  const auto path = store::database_path(options.database);
  if (!path) {
    warn(path.error());
    return std::nullopt;
  }
  auto opened = store::TuneStore::open(*path);
  if (!opened) {
    warn(opened.error());
    return std::nullopt;
  }
  return std::move(opened).value();
}

// Fraction of the work: checking is the first half of the bar, measuring the second, by time where that ends it.
void show(ProgressBar& bar, const GemmProblem& problem, const ladder::Progress& progress, double budget_s) {
  const bool checking = progress.phase == "check";
  const double part = checking ? static_cast<double>(progress.done) / static_cast<double>(progress.total)
                               : progress.elapsed_s / budget_s;
  bar.show((checking ? 0 : 0.5) + 0.5 * part, 1,
           checking ? fmt::format("m {}: {} of {} tactics checked", problem.m, progress.done, progress.total)
                    : fmt::format("m {}: round {}, {} tactics still in", problem.m, progress.done, progress.total));
}

int tune(TuneOptions& options) {
  const auto policy = options.measure.policy(options.gemm.on_cuda());
  if (!policy) return report(policy.error());
  const auto target = options.gemm.target();
  if (!target) return report(target.error());
  auto weights = options.gemm.weights();
  if (!weights) return report(weights.error());

  // A file size limit is then a refused write, which is a warning, instead of the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  std::optional<store::TuneStore> store = open_store(options);

  ladder::TuneRequest request;
  request.m = options.gemm.rows();
  request.output = options.gemm.output();
  request.force = options.force;
  request.weights_name = options.gemm.weights_name();
  request.rung.all = options.all;
  request.rung.policy = *policy;
  if (options.rank_by == Protocol::kWarm) request.rung.policy.protocols = {Protocol::kWarm, Protocol::kCold};

  const InterruptGuard interrupt;
  auto bar = std::make_unique<ProgressBar>();
  auto documents = ordered_json::array();
  bool interrupted = false;
  bool wrong = false;
  ladder::TuneHooks hooks;
  hooks.warn = warn;
  hooks.stop_requested = [&] { return interrupt.requested(); };
  hooks.progress = [&](const GemmProblem& problem, const ladder::Progress& progress) {
    show(*bar, problem, progress, policy->budget_s);
  };
  hooks.done = [&](const ladder::TuneReport& result) {
    bar = std::make_unique<ProgressBar>();
    fmt::print(options.json.on_stdout() ? stderr : stdout, "{}\n", report::to_table(result));
    std::fflush(stdout);
    documents.push_back(report::to_json(result));
    interrupted = interrupted || result.result.stop == measure::StopReason::kInterrupted;
    for (const store::Point& point : result.result.points) wrong = wrong || point.verdict == measure::Verdict::kWrong;
  };
  const auto tuned = ladder::tune_gemm(**target, std::move(*weights), request, store ? &*store : nullptr, hooks);
  bar.reset();
  if (!tuned) return report(tuned.error());
  const auto written = options.json.write(documents.size() == 1 ? documents.front() : documents);
  if (!written) return report(written.error());
  if (interrupted) {
    fmt::print(stderr, "pinch: interrupted; what was measured is above and in the database\n");
    return kSignalled;
  }
  if (wrong) fmt::print(stderr, "pinch: error: a tactic gave a wrong result; see the verdicts above\n");
  return wrong ? kFailed : kOk;
}

}  // namespace

void add_tune(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("tune", "Find the best tactic of a kernel for a problem on this machine");
  command->require_subcommand(0, 1);
  command->callback([command] {
    if (command->get_subcommands().empty()) throw CLI::RequiredError("A subject to tune (gemm)");
  });
  auto* gemm = command->add_subcommand("gemm", "bf16 activations times FP4 weights");
  gemm->footer(kTuneExamples);
  auto options = std::make_shared<TuneOptions>();
  options->gemm.add_to(*gemm);
  options->measure.add_to(*gemm);
  gemm->add_flag("--all", options->all, "Measure every legal tactic, whatever the budget");
  gemm->add_flag("--force", options->force, "Measure even where a stored result fits");
  add_enum(*gemm, "--rank-by", options->rank_by, {Protocol::kCold, Protocol::kWarm}, "Which times decide");
  gemm->add_option("--db", options->database,
                   "The database; else $PINCH_DB, $XDG_CACHE_HOME/pinch/pinch.sqlite or ~/.cache/pinch/pinch.sqlite")
      ->type_name("FILE");
  options->json.add_to(*gemm);
  gemm->callback([options, &status] { status = tune(*options); });
}

}  // namespace pinch::cli
