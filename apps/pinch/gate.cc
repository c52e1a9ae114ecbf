// pinch gate: figures of a project that its CI holds.
#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <string>

#include "apps/pinch/cli.h"
#include "workbench/gate/baseline.h"

namespace pinch::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kGateExamples = R"(Examples:
  pinch tune gemm --m 1,128 --n 4096 --k 4096 --json tune.json
  pinch gate write pinch-baseline.json --result tune.json --code build/kernel.cubin     once; commit the file
  pinch gate hold pinch-baseline.json --result tune.json --code build/kernel.cubin      in CI: exit 1 with what changed

Held are the pick, the regret of the default, the error and the headroom of every problem that was tuned; registers, spills,
cycles, findings and ptxas's options of every kernel; verdict and error of every comparison. docs/gate.md says how.)";

struct GateOptions {
  std::string baseline;
  gate::Sources sources;
  gate::Thresholds thresholds;
  JsonOption json;

  void add_to(CLI::App& command) {
    command.add_option("baseline", baseline, "The baseline file")->required()->type_name("FILE");
    command.add_option("--code", sources.code, "GPU code: cubins, fatbins, programs that hold it")->type_name("FILE");
    command
        .add_option("--kernel", sources.kernels, "Of the code only kernels whose name matches this regular expression")
        ->type_name("REGEX");
    command.add_option("--result", sources.results, "Documents of pinch tune --json and pinch check compare --json")
        ->type_name("DOCUMENT");
  }
};

int write_baseline(const GateOptions& options) {
  const auto made = gate::baseline_of(options.sources);
  if (!made) return report(made.error());
  if (const auto written = write_result(options.baseline, made->dump(1) + "\n", "the baseline"); !written)
    return report(written.error());
  fmt::print("{}: {} kernels, {} tuned problems, {} comparisons\n", options.baseline, (*made)["code"].size(),
             (*made)["tunes"].size(), (*made)["checks"].size());
  return kOk;
}

// A line a change; one that befell many, as another option of ptxas does, is said once.
void print(const std::vector<gate::Change>& changes, const char* mark) {
  for (std::size_t i = 0, next = 0; i < changes.size(); i = next) {
    const gate::Change& change = changes[i];
    while (next < changes.size() && changes[next].section == change.section && changes[next].text == change.text)
      ++next;
    const std::string others = next > i + 1 ? fmt::format(" and {} more", next - i - 1) : "";
    fmt::print("{}{:<6} {}{}: {}\n", mark, change.section, change.what, others, change.text);
  }
}

int hold_baseline(const GateOptions& options) {
  std::ifstream file(options.baseline);
  if (!file)
    return report({ErrorCode::kNotFound, "cannot be opened; write it with: pinch gate write", options.baseline});
  const auto baseline = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto current = gate::baseline_of(options.sources);
  if (!current) return report(current.error());
  const auto held = gate::hold(baseline, *current, options.thresholds);
  if (!held) return report({held.error().code, held.error().text, options.baseline});
  const auto list = [&](const std::vector<gate::Change>& changes, const char* mark) {
    auto rows = ordered_json::array();
    for (const gate::Change& change : changes)
      rows.push_back({{"section", change.section}, {"what", change.what}, {"change", change.text}});
    if (!options.json.on_stdout()) print(changes, mark);
    return rows;
  };
  const auto unjudged = list(held->unjudged, "not judged  "), failures = list(held->failures, "FAILED      ");
  if (!options.json.on_stdout()) fmt::print("{} figures held, {} failures\n", held->figures, held->failures.size());
  const auto written = options.json.write({{"figures", held->figures}, {"failures", failures}, {"unjudged", unjudged}});
  if (!written) return report(written.error());
  return held->failures.empty() ? kOk : kFailed;
}

}  // namespace

void add_gate(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("gate", "Hold figures that a project keeps in its repository");
  command->footer(kGateExamples);
  command->require_subcommand(1);
  auto* write = command->add_subcommand("write", "Write the baseline file");
  auto write_options = std::make_shared<GateOptions>();
  write_options->add_to(*write);
  write->callback([write_options, &status] { status = write_baseline(*write_options); });

  auto* hold = command->add_subcommand("hold", "Exit 1 where something is worse than the baseline, and say what");
  auto options = std::make_shared<GateOptions>();
  options->add_to(*hold);
  gate::Thresholds& allowed = options->thresholds;
  hold->add_option("--max-regret", allowed.regret_percent, "Percent more that the default may cost, beyond noise")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  hold->add_option("--max-error", allowed.error_percent, "Percent more relative L2 error")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  hold->add_option("--max-headroom", allowed.headroom_points, "Points more of the time above the unit that binds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  hold->add_option("--max-cycles", allowed.code.cycles_percent, "Percent more bound or simulated cycles of a loop")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  hold->add_flag("--allow-tools", allowed.allow_tools, "Pass another compiler, or other options of it");
  hold->add_flag("--allow-missing", allowed.allow_missing, "Pass entries of the baseline that are not there now");
  hold->add_flag("--same-code", allowed.same_code, "Fail where any word of a kernel's machine code is another one");
  options->json.add_to(*hold);
  hold->callback([options, &status] { status = hold_baseline(*options); });
}

}  // namespace pinch::cli
