// Fits the constants of the sm90_attention family's time model to recorded times and writes them as a machine model;
// problems whose --held-out lengths are left out judge it.
//
//     build/bin/calibrate/attention_model_fit --truth data/h200/attention/times.csv --held-out 2048 8192
//         --out data/machines/h200-attention.json
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/attention/sm90/model.h"
#include "workbench/calibrate/attention_truth.h"
#include "workbench/calibrate/descent.h"

namespace pinch::calibrate {
namespace {

namespace sm90 = attention::sm90;

constexpr sm90::DeviceFacts kH200{132, std::size_t{60} << 20};
// A row weighs (best time / its time) to this power, because a default depends on the fast tactics.
constexpr double kWeightPower = 1.5;
// Weight of a constant's distance from its start, so that one which the rows say nothing about stays sensible.
constexpr double kPull = 0.02;
// What is known, and not fitted: rates that were measured alone.
constexpr std::size_t kKnown[] = {sm90::ModelConstants::kExp2};

std::vector<double> values_of(const sm90::ModelConstants& c) {
  std::vector<double> values(c.shared.begin(), c.shared.end());
  values.insert(values.end(), c.kernels.begin(), c.kernels.end());
  return values;
}
sm90::ModelConstants constants_of(const std::vector<double>& values) {
  sm90::ModelConstants c;
  std::copy_n(values.begin(), c.shared.size(), c.shared.begin());
  c.kernels.assign(values.begin() + static_cast<std::ptrdiff_t>(c.shared.size()), values.end());
  return c;
}

double predicted(const AttentionTime& row, const sm90::ModelConstants& c) {
  return sm90::cost(sm90::tactics()[row.tactic], row.problem, kH200, c).ns;
}

/// Regret of the cheapest by the model and median error, over the rows.
void judge(const char* half, const std::vector<AttentionTime>& rows, const sm90::ModelConstants& c) {
  double log_sum = 0, worst = 1;
  std::vector<double> errors;
  const auto groups = by_problem(rows);
  for (const auto& group : groups) {
    const auto cheaper = [&](const AttentionTime* a, const AttentionTime* b) {
      return predicted(*a, c) < predicted(*b, c);
    };
    const auto faster = [](const AttentionTime* a, const AttentionTime* b) { return a->ns < b->ns; };
    const AttentionTime& pick = **std::min_element(group.begin(), group.end(), cheaper);
    const AttentionTime& best = **std::min_element(group.begin(), group.end(), faster);
    const double regret = pick.ns / best.ns;
    if (regret > 1.05) {
      const AttentionProblem& p = pick.problem;
      fmt::print("  regret {:.3f} at seq {} dim {} qk {} pv {}{}: {} for {}\n", regret, p.seq, p.dim, to_string(p.qk),
                 to_string(p.pv), p.causal ? " causal" : "", sm90::to_string(sm90::tactics()[pick.tactic]),
                 sm90::to_string(sm90::tactics()[best.tactic]));
    }
    log_sum += std::log(regret);
    worst = std::max(worst, regret);
    for (const AttentionTime* row : group) errors.push_back(std::abs(predicted(*row, c) / row->ns - 1));
  }
  if (errors.empty()) return;
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2), errors.end());
  fmt::print("{:<8} {:>3} problems {:>4} rows: regret geomean {:.4f} worst {:.4f}, median error {:.1f}%\n", half,
             groups.size(), rows.size(), std::exp(log_sum / static_cast<double>(groups.size())), worst,
             100 * errors[errors.size() / 2]);
}

int run(const std::string& truth_file, const std::vector<std::int64_t>& held_out, const std::string& out_file) {
  const auto all = read_attention_times(truth_file);
  if (!all) {
    fmt::print(stderr, "attention_model_fit: error: {}\n", all.error().message());
    return 1;
  }
  std::vector<AttentionTime> fitted, held;
  for (const AttentionTime& row : *all) {
    const bool out = std::find(held_out.begin(), held_out.end(), row.problem.seq) != held_out.end();
    (out ? held : fitted).push_back(row);
  }
  std::map<const AttentionTime*, double> weight;
  for (const auto& group : by_problem(fitted)) {
    double best = group.front()->ns;
    for (const AttentionTime* row : group) best = std::min(best, row->ns);
    for (const AttentionTime* row : group) weight[row] = std::pow(best / row->ns, kWeightPower);
  }
  std::vector<double> values = values_of(sm90::h200_constants());
  const std::vector<double> starts = values;
  std::vector<bool> free(values.size(), true);
  for (const std::size_t known : kKnown) free[known] = false;
  descend(values, free, [&](std::size_t constant) {
    const sm90::ModelConstants c = constants_of(values);
    double sum = kPull * std::abs(std::log(values[constant] / starts[constant]));
    for (const AttentionTime& row : fitted) sum += weight.at(&row) * std::abs(std::log(predicted(row, c) / row.ns));
    return sum;
  });
  const sm90::ModelConstants c = constants_of(values);
  judge("fit", fitted, c);
  judge("held out", held, c);
  auto list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool known = std::find(std::begin(kKnown), std::end(kKnown), i) != std::end(kKnown);
    list.push_back({{"name", sm90::constant_names()[i].name},
                    {"value", std::strtod(fmt::format("{:.4g}", values[i]).c_str(), nullptr)},
                    {"unit", sm90::constant_names()[i].unit},
                    {"source", known ? "data/machines/h200-rates.json" : truth_file},
                    {"method", known ? "ex2.f32, lanes a cycle and multiprocessor"
                                     : "fitted by workbench/calibrate/attention_model_fit.cc"}});
  }
  const nlohmann::ordered_json document{
      {"schema", "pinch-machine/1"},
      {"name", "h200-attention"},
      {"description", fmt::format("NVIDIA H200, {} rows of {}", fitted.size(), truth_file)},
      {"constants", std::move(list)}};
  std::ofstream out(out_file, std::ios::binary);
  out << document.dump(2) << "\n";
  out.close();
  if (!out) {
    fmt::print(stderr, "attention_model_fit: error: {}: cannot be written\n", out_file);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace pinch::calibrate

int main(int argc, char** argv) {
  std::string truth, out;
  std::vector<std::int64_t> held_out;
  CLI::App app("Fits the sm90_attention family's time model to recorded times");
  app.add_option("--truth", truth, "What tests/gpu/attention_time wrote")->required();
  app.add_option("--held-out", held_out, "Lengths that are not fitted but judge the fit");
  app.add_option("--out", out, "The machine model")->required();
  CLI11_PARSE(app, argc, argv);
  return pinch::calibrate::run(truth, held_out, out);
}
