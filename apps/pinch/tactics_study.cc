#include "apps/pinch/tactics_study.h"

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/cli.h"
#include "pinch/families.h"
#include "pinch/study.h"

namespace pinch::cli {
namespace {

using nlohmann::ordered_json;

struct StudyOptions {
  std::string family, truth;
  std::vector<std::string> models;
  double max_geomean = 0, max_worst = 0;  // 0: no gate
  JsonOption json;
};

ordered_json optional_json(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json problem_json(const GemmProblem& p) {
  return {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"format", to_string(p.format)}, {"output", to_string(p.output)}};
}

ordered_json study_json(const Study& study, const char* problems_field) {
  auto problems = ordered_json::array();
  for (const StudiedProblem& studied : study.problems) {
    ordered_json row = problem_json(studied.problem);
    row["pick"] = studied.pick;
    row["pick_ns"] = optional_json(studied.pick_ns);
    row["predicted_ns"] = optional_json(studied.predicted_ns);
    row["best"] = studied.best;
    row["best_ns"] = studied.best_ns;
    row["regret"] = optional_json(studied.regret);
    problems.push_back(std::move(row));
  }
  return {{"model", study.model},
          {"geomean", optional_json(study.geomean)},
          {"worst", optional_json(study.worst)},
          {"worst_problem", study.worst_problem ? problem_json(*study.worst_problem) : ordered_json(nullptr)},
          {"median_abs_error", optional_json(study.median_abs_error)},
          {"unmeasured_picks", study.unmeasured_picks},
          {"unknown_tactics", study.unknown_tactics},
          {problems_field, std::move(problems)}};
}

std::string shown(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "not measured";
}

void print_study(const Study& study) {
  fmt::print("model {}\n{:>6} {:>7} {:>7} {:>13}  {:<36} {}\n", study.model, "m", "n", "k", "regret", "pick", "best");
  for (const StudiedProblem& s : study.problems) {
    fmt::print("{:>6} {:>7} {:>7} {:>13}  {:<36} {}\n", s.problem.m, s.problem.n, s.problem.k, shown(s.regret), s.pick,
               s.best);
  }
  fmt::print("regret: geomean {}, worst {}", shown(study.geomean), shown(study.worst));
  if (const auto& p = study.worst_problem) fmt::print(" (m {} n {} k {})", p->m, p->n, p->k);
  if (study.median_abs_error) fmt::print("; predicted time off by {:.1f}% (median)", *study.median_abs_error * 100);
  fmt::print("\n");
  for (const auto& name : study.unmeasured_picks) fmt::print("picked but not measured: {}\n", name);
  for (const auto& name : study.unknown_tactics) fmt::print("measured but not in this build: {}\n", name);
  fmt::print("\n");
}

// Whether the study is within the gates; a pick that was not measured cannot pass one.
bool within(const Study& study, const StudyOptions& options) {
  const auto exceeds = [&](const std::optional<double>& value, double limit) {
    return limit > 0 && (!value || *value > limit || !study.unmeasured_picks.empty());
  };
  return !exceeds(study.geomean, options.max_geomean) && !exceeds(study.worst, options.max_worst);
}

// Ground truth in two halves, told apart by problem: models were fitted to the first and are judged by the second.
constexpr std::array<const char*, 2> kHalves{"fit", "held_out"};

// Where a family's halves lie, in the folder where the program is started or in its sources.
std::string folder_of(const std::string& family) {
  if (family != "sm90") return {};
  const std::string folder = "data/h200/gemm_bf16_fp4";
  return std::filesystem::is_directory(folder) ? folder : std::string(PINCH_SOURCE_DIR "/") + folder;
}

// One truth under every model: prints and gates it, and answers what `--json` says of its models.
Result<ordered_json> study_truth(const StudyOptions& options, const TacticFamily& family, const Truth& truth,
                                 bool gated, const char* problems_field, bool& passed) {
  std::vector<std::string> models = options.models;
  if (models.empty()) models.assign(family.models().begin(), family.models().end());
  auto studies = ordered_json::array();
  for (const std::string& model : models) {
    PINCH_ASSIGN(study, study_model(family, truth, model));
    if (!options.json.on_stdout()) print_study(study);
    if (gated && !within(study, options)) {
      passed = false;
      fmt::print(stderr, "pinch: model {} of {}: geomean {}, worst {} exceed the gate\n", model, options.truth,
                 shown(study.geomean), shown(study.worst));
    }
    studies.push_back(study_json(study, problems_field));
  }
  return studies;
}

ordered_json provenance_json(const Truth& truth) {
  ordered_json provenance = ordered_json::object();
  for (const auto& [key, value] : truth.provenance) provenance[key] = value;
  return provenance;
}

Result<const TacticFamily*> family_of(const StudyOptions& options, const Truth& truth) {
  if (!options.family.empty() && options.family != truth.family) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} records the {} family; --family {} was asked for", options.truth, truth.family, options.family),
        "family"};
  }
  return find_tactic_family(truth.family);
}

Result<ordered_json> study_file(const StudyOptions& options, bool& passed) {
  PINCH_ASSIGN(truth, read_truth(options.truth));
  PINCH_ASSIGN(family, family_of(options, truth));
  PINCH_ASSIGN(studies, study_truth(options, *family, truth, true, "problems", passed));
  return ordered_json{
      {"family", truth.family}, {"provenance", provenance_json(truth)}, {"studies", std::move(studies)}};
}

Result<ordered_json> study_halves(const StudyOptions& options, bool& passed) {
  std::vector<Truth> truths;  // both, before anything is said of one
  for (const char* half : kHalves) {
    PINCH_ASSIGN(truth, read_truth(options.truth + "/" + half + ".csv"));
    truths.push_back(std::move(truth));
  }
  ordered_json document;
  for (std::size_t i = 0; i < kHalves.size(); ++i) {
    PINCH_ASSIGN(family, family_of(options, truths[i]));
    document["family"] = truths[i].family;
    document["provenance"] = provenance_json(truths[i]);
    if (!options.json.on_stdout()) fmt::print("== {}\n", kHalves[i]);
    const bool gated = i + 1 == kHalves.size();
    PINCH_ASSIGN(models, study_truth(options, *family, truths[i], gated, "per_problem", passed));
    document[kHalves[i]] = {{"problems", models[0]["per_problem"].size()}, {"models", std::move(models)}};
  }
  return document;
}

int run(StudyOptions options) {
  if (options.truth.empty()) options.truth = folder_of(options.family);
  if (options.truth.empty()) {
    return report(Error{ErrorCode::kInvalidArgument,
                        "no --truth FILE; only the sm90 family has ground truth of its own (--family sm90)", "truth"});
  }
  bool passed = true;
  const auto document =
      std::filesystem::is_directory(options.truth) ? study_halves(options, passed) : study_file(options, passed);
  if (!document) return report(document.error());
  const auto written = options.json.write(*document);
  if (!written) return report(written.error());
  return passed ? kOk : kFailed;
}

}  // namespace

void add_tactics_study(CLI::App& tactics, int& status) {
  auto* command = tactics.add_subcommand("study", "Regret of the cost models' picks against recorded ground truth");
  auto options = std::make_shared<StudyOptions>();
  command->add_option("--truth", options->truth,
                      "Recorded times (CSV; docs/design/tactics.md), or a folder of fit.csv and held_out.csv");
  command->add_option("--family", options->family, "Family that must be recorded; sm90 has ground truth of its own");
  command->add_option("--model", options->models, "Models to study; all of the family where left out");
  command->add_option("--max-geomean", options->max_geomean,
                      "Fail (exit 1) where a model's geomean regret is above (of a folder: held out)");
  command->add_option("--max-worst", options->max_worst,
                      "Fail (exit 1) where a model's worst regret is above (of a folder: held out)");
  options->json.add_to(*command);
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace pinch::cli
