// pinch tune: the main job.
#include <fmt/core.h>

#include <csignal>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/pinch/attention_options.h"
#include "apps/pinch/cli.h"
#include "apps/pinch/enum_option.h"
#include "apps/pinch/gemm_options.h"
#include "apps/pinch/interrupt.h"
#include "apps/pinch/measure_options.h"
#include "apps/pinch/progress_bar.h"
#include "apps/pinch/rung_options.h"
#include "apps/pinch/tune_subject.h"
#include "workbench/ladder/tune.h"
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
A second tune of the same problem on the same machine, program and policy reads the stored result.

The rungs of the ladder, cheapest first: throughput, pipeline, schedule, algebra, handoff, tactic, proof (docs/design/ladder.md).)";

constexpr const char* kTuneAttentionExamples = R"(Examples:
  pinch tune attention --heads 16 --seq 1024
  pinch tune attention --batch 4 --heads 32 --kv-heads 8 --seq 4096 --dim 128 --causal
  pinch tune attention --heads 16 --seq 1024 --dim 64 --pv fp4 --json - | jq '.best'
  pinch tune attention --device cuda --batch 4 --heads 16 --seq 8192 --causal

Each tactic is compared with FP64 on some rows of every head before it is timed, and rel_l2 is against FP64 from the bf16
inputs. Warm times rank, because the layer before has just written the inputs; --rank-by cold suits the other case.)";

/// What every subject shares.
struct TuneOptions {
  MeasureOptionGroup measure;
  bool all = false;
  bool force = false;
  RungOptions rungs;
  Protocol rank_by = Protocol::kCold;
  std::string database;
  JsonOption json;

  void add_to(CLI::App& command);
  [[nodiscard]] Result<ladder::TuneRequest> request(const measure::Policy& policy) const;
};

void TuneOptions::add_to(CLI::App& command) {
  measure.add_to(command);
  command.add_flag("--all", all, "Measure every legal tactic, whatever the budget");
  command.add_flag("--force", force, "Measure even where a stored result fits");
  rungs.add_to(command);
  add_enum(command, "--rank-by", rank_by, {Protocol::kCold, Protocol::kWarm}, "Which times decide");
  command
      .add_option("--db", database,
                  "The database; else $PINCH_DB, $XDG_CACHE_HOME/pinch/pinch.sqlite or ~/.cache/pinch/pinch.sqlite")
      ->type_name("FILE");
  json.add_to(command);
}

Result<ladder::TuneRequest> TuneOptions::request(const measure::Policy& policy) const {
  ladder::TuneRequest request;
  PINCH_ASSIGN(selection, rungs.selection());
  request.selection = std::move(selection);
  request.force = force;
  request.rung.all = all;
  request.rung.policy = policy;
  if (rank_by == Protocol::kWarm) request.rung.policy.protocols = {Protocol::kWarm, Protocol::kCold};
  return request;
}

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
void show(ProgressBar& bar, const ladder::Work& work, const ladder::Progress& progress, double budget_s) {
  if (progress.phase == "explain") return bar.show(1, 1, work.heading + ": asking why the fastest takes its time");
  const bool checking = progress.phase == "check";
  const double part = checking ? static_cast<double>(progress.done) / static_cast<double>(progress.total)
                               : progress.elapsed_s / budget_s;
  bar.show((checking ? 0 : 0.5) + 0.5 * part, 1,
           checking ? fmt::format("{}: {} of {} tactics checked", work.heading, progress.done, progress.total)
                    : fmt::format("{}: round {}, {} tactics still in", work.heading, progress.done, progress.total));
}

int tune_all(std::span<const std::unique_ptr<ladder::Task>> tasks, const TuneOptions& options,
             const measure::Policy& policy) {
  // A file size limit is then a refused write, which is a warning, instead of the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto request = options.request(policy);
  if (!request) return report(request.error());
  for (const auto& task : tasks) {
    if (const auto refused = refuse_early(*task, *request); !refused) return report(refused.error());
  }
  std::optional<store::TuneStore> store = open_store(options);
  const InterruptGuard interrupt;
  auto documents = ordered_json::array();
  bool interrupted = false;
  bool wrong = false;
  for (const auto& task : tasks) {
    auto bar = std::make_unique<ProgressBar>();
    ladder::TuneHooks hooks;
    hooks.warn = warn;
    hooks.stop_requested = [&] { return interrupt.requested(); };
    hooks.progress = [&](const ladder::Progress& progress) { show(*bar, task->work(), progress, policy.budget_s); };
    const auto tuned = ladder::tune(*task, *request, store ? &*store : nullptr, hooks);
    bar.reset();
    if (!tuned) return report(tuned.error());
    fmt::print(options.json.on_stdout() ? stderr : stdout, "{}\n", report::to_table(*tuned));
    std::fflush(stdout);
    documents.push_back(report::to_json(*tuned));
    for (const store::Point& point : tuned->result.points) wrong = wrong || point.verdict == measure::Verdict::kWrong;
    interrupted = tuned->result.stop == measure::StopReason::kInterrupted;
    if (interrupted) break;
  }
  const auto written = options.json.write(documents.size() == 1 ? documents.front() : documents);
  if (!written) return report(written.error());
  if (interrupted) {
    fmt::print(stderr, "pinch: interrupted; what was measured is above and in the database\n");
    return kSignalled;
  }
  if (wrong) fmt::print(stderr, "pinch: error: a tactic gave a wrong result; see the verdicts above\n");
  return wrong ? kFailed : kOk;
}

int tune_gemm(GemmOptionGroup& gemm, const TuneOptions& options) {
  const auto policy = options.measure.policy(gemm.on_cuda());
  if (!policy) return report(policy.error());
  const auto tasks = gemm.tasks();
  if (!tasks) return report(tasks.error());
  return tune_all(*tasks, options, *policy);
}

int tune_attention(AttentionOptionGroup& attention, const TuneOptions& options) {
  const auto policy = options.measure.policy(attention.on_cuda());
  if (!policy) return report(policy.error());
  auto task = attention.task();
  if (!task) return report(task.error());
  return tune_all({&*task, 1}, options, *policy);
}

}  // namespace

void add_tune(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("tune", "Find what pinches a kernel, and its best tactic for a problem here");
  command->require_subcommand(0, 1);
  command->footer(kTuneSubjectExamples);
  auto subject = std::make_shared<SubjectTuneOptions>();
  subject->add_to(*command);
  command->callback([command, subject, &status] {
    if (!command->get_subcommands().empty()) return;
    if (subject->spec.empty()) throw CLI::RequiredError("A subject to tune (gemm, attention, or a subject file)");
    status = tune_subject(*subject);
  });
  auto* gemm = command->add_subcommand("gemm", "bf16 activations times FP4 weights");
  gemm->footer(kTuneExamples);
  auto weights = std::make_shared<GemmOptionGroup>();
  auto options = std::make_shared<TuneOptions>();
  weights->add_to(*gemm);
  options->add_to(*gemm);
  gemm->callback([weights, options, &status] { status = tune_gemm(*weights, *options); });

  auto* attention = command->add_subcommand("attention", "Attention forward");
  attention->footer(kTuneAttentionExamples);
  auto problem = std::make_shared<AttentionOptionGroup>();
  auto warm = std::make_shared<TuneOptions>();
  warm->rank_by = Protocol::kWarm;
  problem->add_to(*attention);
  warm->add_to(*attention);
  attention->callback([problem, warm, &status] { status = tune_attention(*problem, *warm); });
}

}  // namespace pinch::cli
