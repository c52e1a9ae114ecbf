#include "workbench/ladder/subject_evidence.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "workbench/ladder/code.h"
#include "workbench/ladder/waiting.h"
#include "workbench/pattern/pattern.h"
#include "workbench/sass/input.h"

namespace pinch::ladder {
namespace {

// As one word of a shell.
std::string quoted(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::map<std::string, Rung> knob_rungs(const sweep::Subject& subject) {
  std::set<std::string> read;
  const auto add = [&](const sweep::Expression& expression) {
    read.insert(expression.names().begin(), expression.names().end());
  };
  for (const sweep::Rule& rule : subject.rules) {
    if (rule.contract) add(rule.require);
  }
  // A let stands behind those that it reads, so one walk from the last reaches all.
  for (auto let = subject.lets.rbegin(); let != subject.lets.rend(); ++let) {
    if (read.contains(let->first)) add(let->second);
  }
  std::map<std::string, Rung> rungs;
  for (const sweep::Knob& knob : subject.knobs) {
    if (read.contains(knob.name)) rungs[knob.name] = Rung::kHandoff;
  }
  return rungs;
}

Result<Settings> settings_of(const sweep::Subject& subject, const sweep::ProblemResult& result) {
  Settings settings;
  settings.rungs = knob_rungs(subject);
  settings.band = std::isfinite(result.band) && result.band > 0 ? result.band : settings.band;
  std::map<sweep::Choice, const sweep::Measured*> points;
  for (const sweep::Measured& point : result.points) points[point.choice] = &point;
  const sweep::Costs costs(result.points, 0, subject.metric.lower_is_better);
  const sweep::Space space(subject, result.problem);
  sweep::ProblemResult ignored;
  PINCH_ASSIGN(legal, sweep::plan(space, subject, ignored));
  for (const sweep::Choice& choice : legal) {
    Setting setting;
    setting.name = space.text(choice);
    for (std::size_t i = 0; i < choice.size(); ++i)
      setting.knobs[subject.knobs[i].name] = sweep::to_string(subject.knobs[i].values[choice[i]]);
    if (const auto found = points.find(choice); found != points.end()) {
      setting.settled = true;
      setting.time = costs.of(*found->second).value_or(0);
    }
    settings.list.push_back(std::move(setting));
  }
  return settings;
}

Known<Checks> checks_of(const sweep::Subject& subject, const sweep::ProblemResult& result) {
  using measure::Verdict;
  if (subject.outputs.empty())
    return Silence{Answer::kNotMeasured, "the subject names no outputs; add [outputs.NAME] to its file"};
  Checks checks;
  int fewest = 0;
  for (const sweep::Measured& point : result.points) {
    const bool refused = point.verdict == Verdict::kWrong || point.verdict == Verdict::kUnstable;
    if (point.verdict != Verdict::kOk && !refused) continue;  // it had no output to compare
    ++checks.checked;
    if (refused) checks.wrong.push_back(fmt::format("{}: {}", point.text, point.detail));
    if (!refused) fewest = fewest == 0 ? point.trials : std::min(fewest, point.trials);
  }
  checks.evidence = {{"reference", "the default's outputs"},
                     {"change", subject.change == check::Change::kReorder ? "reorder" : "algebra"},
                     {"runs_a_setting", fewest},
                     {"missed_probability", {{"rate", 0.05}, {"p", std::pow(0.95, fewest)}}}};
  return checks;
}

std::array<std::string, kRungs.size()> commands_of(const sweep::Subject& subject, const SubjectFiles& files) {
  const std::string tune = "pinch tune " + quoted(subject.file);
  std::string code = tune + " --code " + (files.code.empty() ? "FILE" : quoted(files.code));
  if (!files.kernel.empty()) code += " --kernel " + quoted(files.kernel);
  if (files.warps != 1) code += fmt::format(" --warps {}", files.warps);
  std::array<std::string, kRungs.size()> commands;
  for (const Rung rung : kRungs) {
    std::string& command = commands[static_cast<std::size_t>(rung)];
    const bool reads_code = rung == Rung::kThroughput || rung == Rung::kSchedule || rung == Rung::kAlgebra;
    const std::string& base = reads_code ? code : tune;
    const std::string trace =
        " --trace " + (files.trace.empty() ? "FILE" : quoted(files.trace)) +
        (files.trace_slows ? fmt::format(" --trace-slows {}", *files.trace_slows) : " --trace-slows PERCENT");
    command = fmt::format("{}{} --only {}", base, rung == Rung::kPipeline ? trace : "", to_string(rung));
  }
  return commands;
}

}  // namespace

Result<Known<Code>> read_code(const SubjectFiles& files) {
  if (files.code.empty())
    return Known<Code>(Silence{Answer::kNotMeasured, "no GPU code was given: a cubin, or the program that holds it"});
  PINCH_ASSIGN(wanted, Pattern::compile(files.kernel, "--kernel"));
  sass::InputOptions input;
  input.wants = [&](std::string_view name) { return wanted.found_in(name); };
  PINCH_ASSIGN(program, sass::read_program(files.code, input));
  if (program.kernels.empty())
    return Error{ErrorCode::kNotFound, fmt::format("no kernel matches --kernel '{}'", files.kernel), files.code};
  program.kernels.resize(1);
  sass::AnalysisOptions options;
  options.warps = files.warps;
  PINCH_ASSIGN(reports, sass::analyse(program, options));
  PINCH_ASSIGN(code, code_of(reports.front()));
  code.evidence["file"] = files.code;
  return Known<Code>(std::move(code));
}

Result<Known<Waiting>> read_waiting(const SubjectFiles& files) {
  if (files.trace.empty())
    return Known<Waiting>(Silence{Answer::kNotMeasured, "no trace was given; docs/trace.md says how to write one"});
  PINCH_ASSIGN(file, trace::TraceFile::open(files.trace));
  PINCH_ASSIGN(analysis, trace::analyse(file));
  Waiting waiting = waiting_of(analysis, {});
  if (files.trace_slows) {
    waiting.slowed = *files.trace_slows / 100;
    waiting.evidence["inflation_at_most"] = *waiting.slowed;
  }
  waiting.evidence["file"] = files.trace;
  return Known<Waiting>(std::move(waiting));
}

Result<Evidence> evidence_of(const sweep::Report& report, const sweep::ProblemResult* result, const SubjectFiles& files,
                             const Known<Code>& code, const Known<Waiting>& waiting) {
  const sweep::Subject& subject = *report.subject;
  Evidence evidence;
  evidence.limit =
      Silence{Answer::kNotMeasured, "no GPU code was given, and a command alone does not say what it computes"};
  evidence.code = code;
  evidence.waiting = waiting;
  evidence.checks = Silence{Answer::kNotMeasured, "nothing was run"};
  evidence.commands = commands_of(subject, files);
  if (result == nullptr) return evidence;
  PINCH_ASSIGN(settings, settings_of(subject, *result));
  evidence.settings = std::move(settings);
  evidence.checks = checks_of(subject, *result);
  evidence.stored = {{"database", report.database}, {"sweep", report.key}};
  return evidence;
}

}  // namespace pinch::ladder
