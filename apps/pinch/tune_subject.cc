#include "apps/pinch/tune_subject.h"

#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "apps/pinch/interrupt.h"
#include "apps/pinch/sweep_progress.h"
#include "workbench/report/findings.h"

namespace pinch::cli {
namespace {

using nlohmann::ordered_json;

// A rung whose answer needs the subject to run.
bool needs_runs(const ladder::Selection& selection) {
  using ladder::Rung;
  return selection.asks(Rung::kHandoff) || selection.asks(Rung::kTactic) || selection.asks(Rung::kProof);
}

ordered_json document_of(const sweep::Report& report, std::size_t place, std::span<const ladder::Finding> findings) {
  // Of a report with this problem alone, what pinch sweep says.
  sweep::Report alone = report;
  if (!report.problems.empty()) alone.problems = {report.problems[place]};
  ordered_json document = sweep::to_json(alone);
  document["sweep_findings"] = document["findings"];
  document["findings"] = report::findings_json(findings);
  document["next"] = report::next_json(findings);
  return document;
}

}  // namespace

void SubjectTuneOptions::add_to(CLI::App& command) {
  command.add_option("subject", spec, "A subject file of your own program (docs/subject.md)")->type_name("FILE");
  command.add_option("--code", files.code, "Its GPU code: a cubin, or the program that holds it")->type_name("FILE");
  command.add_option("--kernel", files.kernel, "The first kernel there whose name matches")->type_name("REGEX");
  command.add_option("--warps", files.warps, "Warps of one sub-partition that run its loop")->check(CLI::Range(1, 16));
  command.add_option("--trace", files.trace, "A trace that it wrote (docs/trace.md)")->type_name("FILE");
  command
      .add_option("--trace-slows", files.trace_slows,
                  "Its marks slow it by so much at most, as 'pinch trace -- CMD_${level}' says; waits as long may be "
                  "hidden, and none are ruled out where this is not given")
      ->check(CLI::Range(0.0, 1000.0))
      ->type_name("PERCENT")
      ->needs("--trace");
  command.add_option("--repeats", run.sweep.repeats, "Processes a setting, in interleaved rounds")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command.add_option("--seconds", run.sweep.budget_s, "Start nothing new after so long a time, for each problem")
      ->check(CLI::PositiveNumber);
  command.add_option("--db", run.database, "The SQLite file; default $PINCH_DB, else in the cache folder")
      ->type_name("FILE");
  command.add_flag("--fresh", run.fresh, "Forget what an earlier sweep of this subject stored");
  rungs.add_to(command);
  json.add_to(command);
}

int tune_subject(SubjectTuneOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::exists(options.spec, ignored)) {
    return report(
        {ErrorCode::kNotFound, "is no subject file, nor a bundled kernel; those are gemm and attention", options.spec});
  }
  const auto selection = options.rungs.selection();
  if (!selection) return report(selection.error());
  const auto subject = sweep::read_subject(options.spec);
  if (!subject) return report(subject.error());
  if (const auto ready = sweep::prepare(*subject, options.run); !ready) return report(ready.error());
  const auto code = ladder::read_code(options.files);
  if (!code) return report(code.error());
  const auto waiting = ladder::read_waiting(options.files);
  if (!waiting) return report(waiting.error());

  const InterruptGuard interrupt;
  sweep::Report swept;
  swept.subject = &*subject;
  if (needs_runs(*selection)) {
    auto progress = std::make_unique<SweepProgress>();
    sweep::RunHooks hooks;
    hooks.stop_requested = [&] { return interrupt.requested(); };
    hooks.trial_ended = [&](std::size_t done, std::size_t total, const sweep::StoredTrial& trial) {
      progress->show(done, total, trial.key.point);
    };
    hooks.say = [](const std::string& text) { fmt::print(stderr, "pinch: {}\n", text); };
    auto run = sweep::run(*subject, options.run, hooks);
    progress.reset();
    if (!run) return report(run.error());
    swept = std::move(*run);
  }

  std::FILE* out = options.json.on_stdout() ? stderr : stdout;
  if (!swept.problems.empty()) fmt::print(out, "{}", sweep::to_text(swept));
  auto documents = ordered_json::array();
  for (std::size_t place = 0; place < std::max<std::size_t>(1, swept.problems.size()); ++place) {
    const sweep::ProblemResult* result = swept.problems.empty() ? nullptr : &swept.problems[place];
    const auto evidence = ladder::evidence_of(swept, result, options.files, *code, *waiting);
    if (!evidence) return report(evidence.error());
    const auto findings = ladder::climb(*evidence, *selection);
    if (swept.problems.size() > 1) fmt::print(out, "\n{}\n", result->text);
    fmt::print(out, "{}", report::findings_table(findings));
    documents.push_back(document_of(swept, place, findings));
  }
  std::fflush(stdout);
  const auto written = options.json.write(documents.size() == 1 ? documents.front() : documents);
  if (!written) return report(written.error());
  return interrupt.requested() ? kSignalled : kOk;
}

}  // namespace pinch::cli
