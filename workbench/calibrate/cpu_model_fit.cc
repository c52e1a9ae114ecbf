// Fits the constants of the cpu family's time model to ground truth recorded by cpu_truth, writes them as a machine
// model, and reports regret and error, on problems that the fit saw and on problems held out from it.
//
//     build/bin/calibrate/cpu_model_fit --truth data/cpu/NAME*.csv --name NAME --out data/machines/NAME.json
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "pinch/machine.h"
#include "workbench/calibrate/fit.h"

namespace pinch::calibrate {
namespace {

struct Options {
  std::vector<std::string> truth;
  std::string name, out;
};

void print(const char* what, const FitQuality& q) {
  fmt::print(
      "{:<42} regret geomean {:.3f} worst {:.3f}, predicted time off by {:.1f}% (median, within 2x of the best)\n",
      what, q.geomean_regret, q.worst_regret, q.median_abs_error * 100);
}

// Fits without each value of `axis` in turn and judges each fit on the problems it did not see.
void hold_out(const char* what, const FitData& data, const KnownConstants& known,
              const std::function<std::int64_t(const GemmProblem&)>& axis) {
  std::set<std::int64_t> values;
  for (const TimedProblem& p : data.problems) values.insert(axis(p.problem));
  if (values.size() < 2) return;
  double log_sum = 0, error_sum = 0;
  FitQuality all;
  for (const std::int64_t value : values) {
    std::vector<bool> seen, held;
    for (const TimedProblem& p : data.problems) {
      held.push_back(axis(p.problem) == value);
      seen.push_back(!held.back());
    }
    const FitQuality q = quality(data, fit_constants(data, known, seen), held);
    const auto count = static_cast<double>(std::count(held.begin(), held.end(), true));
    log_sum += count * std::log(q.geomean_regret);
    error_sum += count * q.median_abs_error;
    all.worst_regret = std::max(all.worst_regret, q.worst_regret);
  }
  const auto problems = static_cast<double>(data.problems.size());
  all.geomean_regret = std::exp(log_sum / problems);
  all.median_abs_error = error_sum / problems;
  print(what, all);
}

nlohmann::ordered_json machine_json(const Options& options, const Truth& truth, const std::vector<double>& values) {
  const CpuMachine& cpu = cpu_machine();
  std::string machine;
  for (const auto& [key, value] : truth.provenance) {
    if (key == "machine") machine = value;
  }
  auto constants = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const CpuConstant& constant = cpu_constants()[i];
    const bool size = constant.unit == "bytes";
    constants.push_back(
        {{"name", constant.name},
         {"value", size ? values[i] : std::strtod(fmt::format("{:.4g}", values[i]).c_str(), nullptr)},
         {"unit", constant.unit},
         {"source", size ? "operating system (sysconf)" : fmt::format("{}", fmt::join(options.truth, ", "))},
         {"method", size ? "read" : "fitted by workbench/calibrate/cpu_model_fit.cc"}});
  }
  return {{"schema", "pinch-machine/1"},
          {"name", options.name},
          {"description", machine},
          {"cpu", {{"vendor", cpu.vendor}, {"family", cpu.family}, {"models", {cpu.model}}}},
          {"constants", std::move(constants)}};
}

// The rows of all records, which must be of one machine.
Result<Truth> read_all(const std::vector<std::string>& files) {
  PINCH_ASSIGN(all, read_truth(files.front()));
  for (std::size_t i = 1; i < files.size(); ++i) {
    PINCH_ASSIGN(more, read_truth(files[i]));
    if (more.family != all.family || more.resources != all.resources || more.provenance[0] != all.provenance[0]) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("records another machine or thread count than {}", files[0]), files[i]};
    }
    all.rows.insert(all.rows.end(), more.rows.begin(), more.rows.end());
  }
  return all;
}

int run(const Options& options) {
  const auto truth = read_all(options.truth);
  if (!truth) {
    fmt::print(stderr, "cpu_model_fit: error: {}\n", truth.error().message());
    return 1;
  }
  const FitData data = fit_data(*truth);
  const CpuMachine& cpu = cpu_machine();
  const KnownConstants known{static_cast<double>(cpu.l1d_bytes), static_cast<double>(cpu.l2_bytes)};
  const std::vector<bool> all(data.problems.size(), true);
  const std::vector<double> values = fit_constants(data, known, all);
  fmt::print("{} problems, {} timed rows, {} constants\n", data.problems.size(), data.rows.size(), values.size());
  print("all problems seen", quality(data, values, all));
  hold_out("each n held out (fitted on the others)", data, known, [](const GemmProblem& p) { return p.n; });
  hold_out("each m held out (fitted on the others)", data, known, [](const GemmProblem& p) { return p.m; });
  std::ofstream out(options.out, std::ios::binary);
  out << machine_json(options, *truth, values).dump(2) << "\n";
  out.close();
  if (!out) {
    fmt::print(stderr, "cpu_model_fit: error: {}: cannot be written\n", options.out);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace pinch::calibrate

int main(int argc, char** argv) {
  pinch::calibrate::Options options;
  CLI::App app("Fits the cpu family's time model to recorded ground truth");
  app.add_option("--truth", options.truth, "one or more records of one machine")->required();
  app.add_option("--name", options.name)->required();
  app.add_option("--out", options.out)->required();
  CLI11_PARSE(app, argc, argv);
  return pinch::calibrate::run(options);
}
