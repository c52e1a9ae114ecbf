// pinch tactics cliff: what another optimisation level of the compiler changes, tactic by tactic, from recorded times.
#include "apps/pinch/tactics_cliff.h"

#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/cli.h"
#include "pinch/study.h"

namespace pinch::cli {
namespace {

using nlohmann::ordered_json;

struct CliffOptions {
  std::vector<std::string> first, second;
  JsonOption json;
};

Result<std::vector<Truth>> read_all(const std::vector<std::string>& files) {
  std::vector<Truth> truths;
  for (const std::string& file : files) {
    PINCH_ASSIGN(truth, read_truth(file));
    truths.push_back(std::move(truth));
  }
  return truths;
}

// The recorded levels of the sm90 family, in the folder where the program is started or in its sources.
std::vector<std::string> recorded(const std::string& level) {
  std::string folder = "data/h200/gemm_bf16_fp4/opt_level/";
  if (!std::filesystem::is_directory(folder)) folder = std::string(PINCH_SOURCE_DIR "/") + folder;
  return {folder + level + "_1.csv", folder + level + "_2.csv"};
}

Result<BuildComparison> compare(const CliffOptions& options) {
  PINCH_ASSIGN(first, read_all(options.first.empty() ? recorded("o2") : options.first));
  PINCH_ASSIGN(second, read_all(options.second.empty() ? recorded("o3") : options.second));
  return compare_builds(first, second);
}

ordered_json cell_json(const BuildCell& cell) {
  const GemmProblem& p = cell.problem;
  return {{"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"format", to_string(p.format)},
          {"output", to_string(p.output)},
          {"tactic", cell.tactic},
          {"ratio", cell.ratio}};
}

int run(const CliffOptions& options) {
  const auto compared = compare(options);
  if (!compared) return report(compared.error());
  auto moved = ordered_json::array();
  for (const BuildCell& cell : compared->moved) moved.push_back(cell_json(cell));
  if (!options.json.on_stdout()) {
    fmt::print("{} cells (tactic x problem); second build / first: median {:.3f}; noise {:.3f}\n",
               compared->cells.size(), compared->median, compared->noise);
    for (const BuildCell& cell : compared->moved) {
      fmt::print("{:.3f}  m {} n {} k {} {}  {}\n", cell.ratio, cell.problem.m, cell.problem.n, cell.problem.k,
                 to_string(cell.problem.format), cell.tactic);
    }
    if (compared->moved.empty()) fmt::print("no cell moves alone\n");
  }
  const auto written = options.json.write({{"cells", compared->cells.size()},
                                           {"median", compared->median},
                                           {"noise", compared->noise},
                                           {"moved", std::move(moved)}});
  if (!written) return report(written.error());
  return compared->moved.empty() ? kOk : kFailed;
}

}  // namespace

void add_tactics_cliff(CLI::App& tactics, int& status) {
  auto* command = tactics.add_subcommand(
      "cliff", "Cells that another build of the kernels moves alone; ptxas -O2 against -O3 as recorded; exit 1 if any");
  auto options = std::make_shared<CliffOptions>();
  command->add_option("--first", options->first, "Two rounds of one build (CSV); -O2 where left out")->expected(2);
  command->add_option("--second", options->second, "Two rounds of the other; -O3 where left out")->expected(2);
  options->json.add_to(*command);
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace pinch::cli
