// pinch tactics: what the cost models say, without running anything.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <variant>
#include <vector>

#include "apps/pinch/cli.h"
#include "apps/pinch/problem_options.h"
#include "apps/pinch/tactics_cliff.h"
#include "apps/pinch/tactics_study.h"
#include "pinch/families.h"
#include "pinch/machine.h"

namespace pinch::cli {
namespace {

using nlohmann::ordered_json;

struct TacticsOptions {
  std::string family, model;
  GemmProblem gemm;
  AttentionProblemOptions attention;
  Resources resources;
  bool sms_given = false;
  JsonOption json;
};

Resources resources_of(const TacticsOptions& options, const TacticList& family) {
  Resources resources = options.resources;
  if (!options.sms_given) resources.sm_count = family.usual_sm_count();
  return resources;
}

GemmProblem problem_for(const TacticFamily&, const TacticsOptions& options) {
  return options.gemm;
}
AttentionProblem problem_for(const AttentionTacticFamily&, const TacticsOptions& options) {
  AttentionProblem problem = options.attention.problem();
  problem.output = options.gemm.output;
  return problem;
}

// Costs that count something stay whole numbers.
ordered_json cost_json(double cost) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::nearbyint(cost) == cost && std::abs(cost) < kExact) return static_cast<std::int64_t>(cost);
  return cost;
}

ordered_json tactic_json(const TacticList& family, const RankedTactic& ranked, std::string_view model) {
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

std::size_t name_width(const TacticList& family) {
  std::size_t width = 32;
  for (std::size_t index = 0; index < family.size(); ++index) width = std::max(width, family.to_string(index).size());
  return width;
}

void print_header(const TacticList& family, std::string_view model) {
  if (const auto calibration = family.calibration(model); !calibration.empty()) {
    fmt::print(stderr, "times by model {}: {}\n", model, calibration);
  }
  fmt::print("{:<{}} {:>5} {:>9} {:>7} {:>14}\n", "tactic", name_width(family), "index", "ctas", "waves", "cost");
}
void print_row(const TacticList& family, std::size_t width, const RankedTactic& ranked) {
  const Estimate& e = ranked.estimate;
  fmt::print("{:<{}} {:>5} {:>9} {:>7} {:>14.0f} {}\n", family.to_string(ranked.index), width, ranked.index, e.ctas,
             e.waves, e.cost, e.unit);
}

// A refusal by a named rule is an answer, so it is written as one; the exit code tells it from a pick.
int refuse(const TacticsOptions& options, const Error& error) {
  if (error.code != ErrorCode::kIllegal || !options.json.given()) return report(error);
  const auto written = options.json.write({{"illegal", error.message()}});
  return written ? kFailed : report(written.error());
}

int list(const TacticList& family, const TacticsOptions& options) {
  const std::size_t width = name_width(family);
  auto rows = ordered_json::array();
  for (std::size_t index = 0; index < family.size(); ++index) {
    const std::string name = family.to_string(index);
    ordered_json row{{"index", index}, {"tactic", name}};
    std::string text;
    for (const auto& [knob, value] : family.knobs(index)) {
      row[std::string(knob)] = knob_json(value);
      text += fmt::format("  {} {}", knob, knob_json(value).dump());
    }
    if (!options.json.on_stdout()) fmt::print("{:>4}  {:<{}}{}\n", index, name, width, text);
    rows.push_back(std::move(row));
  }
  const auto written = options.json.write(rows);
  return written ? kOk : report(written.error());
}

template <class Family>
int pick(const Family& family, const TacticsOptions& options) {
  const auto model = find_model(family, options.model);
  if (!model) return report(model.error());
  const auto best = default_tactic(family, problem_for(family, options), resources_of(options, family), *model);
  if (!best) return refuse(options, best.error());
  if (!options.json.on_stdout()) {
    print_header(family, *model);
    print_row(family, name_width(family), *best);
  }
  const auto written = options.json.write(tactic_json(family, *best, *model));
  return written ? kOk : report(written.error());
}

template <class Family>
int rank(const Family& family, const TacticsOptions& options) {
  const auto model = find_model(family, options.model);
  if (!model) return report(model.error());
  const auto ranked = rank_tactics(family, problem_for(family, options), resources_of(options, family), *model);
  if (!ranked) return refuse(options, ranked.error());
  if (!options.json.on_stdout()) print_header(family, *model);
  const std::size_t width = name_width(family);
  auto rows = ordered_json::array();
  for (const RankedTactic& tactic : *ranked) {
    if (!options.json.on_stdout()) print_row(family, width, tactic);
    rows.push_back(tactic_json(family, tactic, *model));
  }
  const auto written = options.json.write(rows);
  return written ? kOk : report(written.error());
}

constexpr const char* kGemmOptions = "mm_bf16_fp4 (families cpu, sm90, sm100)";
constexpr const char* kAttentionOptions = "Attention (families cpu_attention, sm90_attention)";

// Each kind of problem has options of its own.
void check_options(const CLI::App& command, bool attention) {
  const auto given = [&](const char* group) {
    return command.get_options([&](const CLI::Option* o) { return o->get_group() == group && o->count() > 0; });
  };
  if (const auto foreign = given(attention ? kGemmOptions : kAttentionOptions); !foreign.empty()) {
    throw CLI::ValidationError(foreign.front()->get_name(), attention
                                                                ? "this family is attention's: give --heads and --seq"
                                                                : "this family is mm_bf16_fp4's: give --m, --n, --k");
  }
  const auto needed =
      attention ? std::vector<const char*>{"--heads", "--seq"} : std::vector<const char*>{"--m", "--n", "--k"};
  for (const char* name : needed) {
    if (command.count(name) == 0) throw CLI::RequiredError(name);
  }
}

enum class Action { kList, kDefault, kRank };

CLI::App* add_action(CLI::App& parent, const std::string& name, const std::string& help, Action action, int& status) {
  auto* command = parent.add_subcommand(name, help);
  auto options = std::make_shared<TacticsOptions>();
  command->add_option("--family", options->family, "Family of tactics")->required();
  if (action != Action::kList) {
    options->resources.threads = cpu_machine().cores;
    add_whole_number(*command, "--sms", options->resources.sm_count,
                     "Streaming multiprocessors (GPU families); 132 for sm90 and sm90_attention where left out");
    add_whole_number(*command, "--threads", options->resources.threads,
                     "Worker threads (CPU families); every CPU where left out");
    command->add_option("--model", options->model, "Cost model; the family's first where it is left out");
  }
  options->json.add_to(*command);
  if (action != Action::kList) {
    add_type_options(*command, options->gemm);
    command->get_option("--format")->group(kGemmOptions);
    command->option_defaults()->group(kGemmOptions);
    add_size_options(*command, options->gemm);
    command->option_defaults()->group(kAttentionOptions);
    options->attention.add_to(*command);
  }
  command->callback([options, action, command, &status] {
    const auto found = find_any_tactic_family(options->family);
    if (!found) {
      status = report(found.error());
      return;
    }
    if (action != Action::kList) {
      options->sms_given = command->count("--sms") > 0;
      check_options(*command, std::holds_alternative<const AttentionTacticFamily*>(*found));
    }
    status = std::visit(
        [&](const auto* family) {
          if (action == Action::kList) return list(*family, *options);
          return action == Action::kDefault ? pick(*family, *options) : rank(*family, *options);
        },
        *found);
  });
  return command;
}

}  // namespace

void add_tactics(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("tactics", "Ask the cost models: list, default, rank, study, cliff; nothing is run");
  command->require_subcommand(0, 1);
  command->callback([command] {
    if (command->get_subcommands().empty()) throw CLI::RequiredError("A subcommand of tactics");
  });
  add_action(*command, "list", "Every tactic of a family with its knobs", Action::kList, status);
  add_action(*command, "default", "The tactic used with no tuning", Action::kDefault, status);
  add_action(*command, "rank", "Every legal tactic, cheapest first", Action::kRank, status);
  add_tactics_study(*command, status);
  add_tactics_cliff(*command, status);
}

}  // namespace pinch::cli
