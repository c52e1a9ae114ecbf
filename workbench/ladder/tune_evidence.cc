#include "workbench/ladder/tune_evidence.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <variant>

namespace pinch::ladder {
namespace {

constexpr std::size_t kFewestSamples = 3;  // of a time that another is compared with

/// Knobs that are not of the tactic rung: how much is handed over at once and how far ahead, and what is computed
/// instead.
std::map<std::string, Rung> knob_rungs(std::string_view family) {
  std::map<std::string, Rung> rungs;
  for (const char* knob : {"k_block", "stages", "consumers", "group", "chunks"}) rungs[knob] = Rung::kHandoff;
  for (const char* knob : {"exp2", "sixteenths", "quant", "threshold"}) rungs[knob] = Rung::kAlgebra;
  if (family == "sm90_attention") rungs["split"] = Rung::kHandoff;  // of P; the CPU's is of the work
  return rungs;
}

struct KnobText {
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const KnobPair& value) const { return fmt::format("{}x{}", value[0], value[1]); }
};

Settings settings_of(const Task& task, std::span<const RankedTactic> ranked, const TuneReport& report) {
  Settings settings;
  settings.rungs = knob_rungs(task.family().name());
  settings.band = report.result.conclusion.tie_band > 0 ? report.result.conclusion.tie_band : report.policy.tie_band;
  std::map<std::string, const store::Point*> points;
  for (const store::Point& point : report.result.points) points[point.tactic] = &point;
  for (const RankedTactic& tactic : ranked) {
    Setting setting;
    setting.name = task.family().to_string(tactic.index);
    for (const auto& [knob, value] : task.family().knobs(tactic.index))
      setting.knobs[std::string(knob)] = std::visit(KnobText(), value);
    if (const auto found = points.find(setting.name); found != points.end()) {
      const store::Point& point = *found->second;
      const auto times = accepted_ns(point.samples, report.policy.protocols.front());
      if (point.verdict == measure::Verdict::kOk && times.size() >= kFewestSamples)
        setting.time = measure::summarize(times).median;
      // An undisturbed sample or two that were slow enough to drop it say that it is no winner.
      setting.settled = !times.empty() ||
                        (point.verdict != measure::Verdict::kTimeout && point.verdict != measure::Verdict::kUnstable);
    }
    settings.list.push_back(std::move(setting));
  }
  return settings;
}

Known<Limit> limit_of(const TuneReport& report) {
  const measure::Protocol protocol = report.policy.protocols.front();
  const double bound = bound_ns(report.work, report.roofline, protocol);
  if (bound <= 0) return Silence{Answer::kNotMeasured, "the machine's rates are not known"};
  const bool computes = report.work.flops / report.roofline.gflops >= bound;
  const double gbps = protocol == measure::Protocol::kCold ? report.roofline.cold_gbps : report.roofline.warm_gbps;
  return Limit{bound,
               computes ? "multiply-adds" : "reads",
               {{"flops", report.work.flops},
                {"bytes", report.work.least_bytes},
                {"gflops_at_most", report.roofline.gflops},
                {"gbps_at_most", gbps}}};
}

Checks checks_of(const TuneReport& report) {
  Checks checks;
  double worst = 0;
  for (const store::Point& point : report.result.points) {
    if (point.verdict == measure::Verdict::kIllegal) continue;
    ++checks.checked;
    if (point.verdict == measure::Verdict::kWrong)
      checks.wrong.push_back(point.tactic + ": " + point.why);
    else
      worst = std::max(worst, point.rel_l2.value_or(0));
  }
  checks.evidence = {{"reference", "FP64"}, {"worst_rel_l2_of_right_ones", worst}};
  return checks;
}

/// The options of `pinch tune` that name this problem and place: "--m 8 --n 4096 ... --threads 2".
struct OptionText {
  std::string option;
  std::string operator()(std::int64_t value) const { return fmt::format(" {} {}", option, value); }
  std::string operator()(bool value) const { return value ? " " + option : ""; }
  std::string operator()(const std::string& value) const { return fmt::format(" {} {}", option, value); }
  std::string operator()(const KnobPair&) const { return ""; }
};
std::string options_text(const TuneReport& report) {
  std::string text;
  for (const auto& [name, value] : report.work.sizes) {
    std::string option = "--" + std::string(name);
    std::replace(option.begin(), option.end(), '_', '-');
    text += std::visit(OptionText{option}, value);
  }
  return text +
         (report.resources.sm_count > 0 ? " --device cuda" : fmt::format(" --threads {}", report.resources.threads));
}

/// `reads_code`: no knob of the family changes what is computed, so that code alone tells of algebra.
std::array<std::string, kRungs.size()> commands_of(const TuneReport& report, bool reads_code) {
  const bool on_gpu = report.resources.sm_count > 0;
  const std::string problem = fmt::format("{}{}", report.work.subject, options_text(report));
  std::array<std::string, kRungs.size()> commands;
  const auto command = [&](Rung rung) -> std::string& { return commands[static_cast<std::size_t>(rung)]; };
  for (const Rung rung : {Rung::kThroughput, Rung::kProof})
    command(rung) = fmt::format("pinch tune {} --only {}", problem, to_string(rung));
  for (const Rung rung : {Rung::kAlgebra, Rung::kHandoff, Rung::kTactic})
    command(rung) = fmt::format("pinch tune {} --all", problem);
  command(Rung::kPipeline) = "pinch trace " + problem;
  if (const std::string& tactic = report.result.conclusion.fastest; on_gpu && !tactic.empty())
    command(Rung::kPipeline) += " --tactic " + tactic;
  command(Rung::kSchedule) = fmt::format("pinch tune {} --only schedule", problem);
  if (const auto* code = std::get_if<Code>(&report.code)) {
    const auto of = [&](const char* key) { return code->evidence.at(key); };
    command(Rung::kSchedule) = fmt::format(
        "pinch sass \"$(command -v pinch)\" --kernel '^{}$' --warps {}{}", of("kernel").get<std::string>(),
        of("warps").get<int>(),
        of("role") == "" ? "" : fmt::format(" --role {}={}", of("role").get<std::string>(), of("warps").get<int>()));
  }
  if (reads_code) command(Rung::kAlgebra) = command(Rung::kSchedule);
  return commands;
}

}  // namespace

Evidence evidence_of(const Task& task, std::span<const RankedTactic> ranked, const TuneReport& report) {
  Evidence evidence;
  evidence.settings = settings_of(task, ranked, report);
  evidence.limit = limit_of(report);
  evidence.waiting = report.waiting;
  evidence.code = report.code;
  evidence.checks = checks_of(report);
  const Settings& settings = evidence.settings;
  evidence.commands =
      commands_of(report, std::none_of(settings.list.begin(), settings.list.end(), [&](const Setting& setting) {
                    return std::any_of(setting.knobs.begin(), setting.knobs.end(), [&](const auto& knob) {
                      const auto rung = settings.rungs.find(knob.first);
                      return rung != settings.rungs.end() && rung->second == Rung::kAlgebra;
                    });
                  }));
  if (report.run != 0) evidence.stored = {{"run", report.run}};
  return evidence;
}

}  // namespace pinch::ladder
