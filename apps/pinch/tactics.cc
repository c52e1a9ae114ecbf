// pinch tactics: what the cost models say, without running anything.
#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <vector>

#include "apps/pinch/cli.h"
#include "apps/pinch/problem_options.h"
#include "apps/pinch/tactics_study.h"
#include "pinch/families.h"
#include "pinch/machine.h"

namespace pinch::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string family, model;
  GemmProblem problem;
  Resources resources;
  JsonOption json;
};

// Costs that count something stay whole numbers.
ordered_json cost_json(double cost) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::nearbyint(cost) == cost && std::abs(cost) < kExact) return static_cast<std::int64_t>(cost);
  return cost;
}

ordered_json tactic_json(const TacticFamily& family, const RankedTactic& ranked, std::string_view model) {
  ordered_json row{{"tactic", family.to_string(ranked.index)},
                   {"index", ranked.index},
                   {"ctas", ranked.estimate.ctas},
                   {"waves", ranked.estimate.waves},
                   {"cost", cost_json(ranked.estimate.cost)},
                   {"model", model}};
  if (const auto calibration = family.calibration(model); !calibration.empty()) row["calibration"] = calibration;
  return row;
}

ordered_json knob_json(const KnobValue& value) {
  return std::visit([](const auto& held) { return ordered_json(held); }, value);
}

void print_header(const TacticFamily& family, std::string_view model) {
  if (const auto calibration = family.calibration(model); !calibration.empty()) {
    fmt::print(stderr, "times by model {}: {}\n", model, calibration);
  }
  fmt::print("{:<32} {:>5} {:>9} {:>7} {:>14}\n", "tactic", "index", "ctas", "waves", "cost");
}
void print_row(const TacticFamily& family, const RankedTactic& ranked) {
  const Estimate& e = ranked.estimate;
  fmt::print("{:<32} {:>5} {:>9} {:>7} {:>14.0f} {}\n", family.to_string(ranked.index), ranked.index, e.ctas, e.waves,
             e.cost, e.unit);
}

// A refusal by a named rule is an answer, so it is written as one; the exit code tells it from a pick.
int refuse(const Options& options, const Error& error) {
  if (error.code != ErrorCode::kIllegal || !options.json.given()) return report(error);
  const auto written = options.json.write({{"illegal", error.message()}});
  return written ? kFailed : report(written.error());
}

int list(const Options& options) {
  const auto family = find_tactic_family(options.family);
  if (!family) return report(family.error());
  auto rows = ordered_json::array();
  for (std::size_t index = 0; index < (*family)->size(); ++index) {
    const std::string name = (*family)->to_string(index);
    ordered_json row{{"index", index}, {"tactic", name}};
    std::string text;
    for (const auto& [knob, value] : (*family)->knobs(index)) {
      row[std::string(knob)] = knob_json(value);
      text += fmt::format("  {} {}", knob, knob_json(value).dump());
    }
    if (!options.json.on_stdout()) fmt::print("{:>4}  {:<32}{}\n", index, name, text);
    rows.push_back(std::move(row));
  }
  const auto written = options.json.write(rows);
  return written ? kOk : report(written.error());
}

int pick(const Options& options) {
  const auto family = find_tactic_family(options.family);
  if (!family) return report(family.error());
  const auto model = find_model(**family, options.model);
  if (!model) return report(model.error());
  const auto best = default_tactic(**family, options.problem, options.resources, *model);
  if (!best) return refuse(options, best.error());
  if (!options.json.on_stdout()) {
    print_header(**family, *model);
    print_row(**family, *best);
  }
  const auto written = options.json.write(tactic_json(**family, *best, *model));
  return written ? kOk : report(written.error());
}

int rank(const Options& options) {
  const auto family = find_tactic_family(options.family);
  if (!family) return report(family.error());
  const auto model = find_model(**family, options.model);
  if (!model) return report(model.error());
  const auto ranked = rank_tactics(**family, options.problem, options.resources, *model);
  if (!ranked) return refuse(options, ranked.error());
  if (!options.json.on_stdout()) print_header(**family, *model);
  auto rows = ordered_json::array();
  for (const RankedTactic& tactic : *ranked) {
    if (!options.json.on_stdout()) print_row(**family, tactic);
    rows.push_back(tactic_json(**family, tactic, *model));
  }
  const auto written = options.json.write(rows);
  return written ? kOk : report(written.error());
}

using Action = int (*)(const Options&);

CLI::App* add_action(CLI::App& parent, const std::string& name, const std::string& help, Action action, int& status,
                     bool needs_problem) {
  auto* command = parent.add_subcommand(name, help);
  auto options = std::make_shared<Options>();
  command->add_option("--family", options->family, "Family of tactics")->required();
  if (needs_problem) {
    options->resources.threads = cpu_machine().cores;
    add_problem_options(*command, options->problem);
    add_whole_number(*command, "--sms", options->resources.sm_count, "Streaming multiprocessors (GPU families)");
    add_whole_number(*command, "--threads", options->resources.threads,
                     "Worker threads (CPU families); every CPU where left out");
    command->add_option("--model", options->model, "Cost model; the family's first where it is left out");
  }
  options->json.add_to(*command);
  command->callback([options, action, &status] { status = action(*options); });
  return command;
}

}  // namespace

void add_tactics(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("tactics", "Ask the cost models: list, default, rank, study; nothing is run");
  command->require_subcommand(0, 1);
  command->callback([command] {
    if (command->get_subcommands().empty()) throw CLI::RequiredError("A subcommand of tactics");
  });
  add_action(*command, "list", "Every tactic of a family with its knobs", list, status, false);
  add_action(*command, "default", "The tactic used with no tuning", pick, status, true);
  add_action(*command, "rank", "Every legal tactic, cheapest first", rank, status, true);
  add_tactics_study(*command, status);
}

}  // namespace pinch::cli
