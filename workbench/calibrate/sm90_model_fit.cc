// Fits the constants of the sm90 family's time model to one half of its ground truth and writes them as a machine
// model. The other half is for judging: `pinch tactics study --family sm90`.
//
//     build/bin/calibrate/sm90_model_fit --truth data/h200/gemm_bf16_fp4/fit.csv --out data/machines/h200.json
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/model.h"
#include "pinch/study.h"
#include "workbench/calibrate/descent.h"

namespace pinch::calibrate {
namespace {

namespace sm90 = gemm_bf16_fp4::sm90;

// A hopeless tactic takes at least this many times the best: below the factor by which it was left out, because a probe
// is no measurement.
constexpr double kHopeless = 2.0;
// A row weighs (best time / its time) to this power, because a default depends on the fast tactics.
constexpr double kWeightPower = 1.5;
// Weight of a constant's distance from its start, so that one which the rows say nothing about stays sensible.
constexpr double kPull = 0.02;

struct Row {
  std::size_t tactic = 0, kernel = 0;
  sm90::ModelProblem call;
  double best_ns = 0;
  std::optional<double> ns;  // nothing: hopeless
};

double start_of(const sm90::Constant& constant, const sm90::Tactic* first_tactic) {
  static const std::map<std::string, double> starts{
      {"wgmma.launch", 5000},        {"stream.launch", 5000},      {"launch.cluster", 300},
      {"wgmma.dram", 4000},          {"stream.dram", 4000},        {"wgmma.l2", 8000},
      {"wgmma.stage_latency", 1500}, {"wgmma.tile", 500},          {"wgmma.store", 100},
      {"wgmma.share", 500},          {"wgmma.part", 100},          {"wgmma.part_copy", 100},
      {"wgmma.exchange", 500},       {"wgmma.exchange_copy", 200}, {"wgmma.mxfp4", 1},
      {"stream.mxfp4", 1},           {"wgmma.power", 0.1},         {"stream.activations", 50},
      {"stream.group", 200},         {"stream.round", 30},         {"stream.split", 1000},
      {"stream.balance", 500},       {"wgmma.overlap", 0.2},       {"stream.overlap", 0.2}};
  if (first_tactic == nullptr) return starts.at(constant.name);
  // Two thirds of the tensor cores' rate at 2 GHz; half a multiprocessor's share of 4 TB/s.
  const auto* wgmma = std::get_if<sm90::WgmmaTactic>(first_tactic);
  if (wgmma == nullptr) return 20;
  const sm90::WgmmaTile& tile = wgmma->tile;
  return tile.tile_n / 64.0 * tile.tile_k / 16 * std::max(16, tile.tile_m) / 2 * 0.65;
}

// Which kernel's rows a shared constant concerns: 0 wgmma, 1 streaming, 2 both.
int kernels_of(const std::string& name) {
  return name.starts_with("wgmma") ? 0 : name.starts_with("stream") ? 1 : 2;
}

std::vector<Row> rows_of(const Truth& truth) {
  std::map<std::string, std::size_t> indices;
  for (std::size_t index = 0; index < sm90::tactics().size(); ++index)
    indices[sm90::to_string(sm90::tactics()[index])] = index;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, Fp4Format, OutputType>, double> best;
  const auto key = [](const GemmProblem& p) { return std::tuple(p.m, p.n, p.k, p.format, p.output); };
  for (const TruthRow& row : truth.rows) {
    if (!row.median_ns) continue;
    const auto at = best.emplace(key(row.problem), *row.median_ns).first;
    at->second = std::min(at->second, *row.median_ns);
  }
  std::vector<Row> rows;
  for (const TruthRow& row : truth.rows) {
    const auto known = indices.find(row.tactic);
    if (known == indices.end() || (!row.median_ns && row.verdict != "hopeless")) continue;
    std::size_t kernel = 0;
    while (sm90::kernel_tactics()[kernel].last <= known->second) ++kernel;
    const GemmProblem& p = row.problem;
    rows.push_back({known->second,
                    kernel,
                    {{static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k)}, p.format, p.output},
                    best.at(key(p)),
                    row.median_ns});
  }
  return rows;
}

std::vector<double> fit(const std::vector<Row>& rows, const sm90::Device& device) {
  const auto constants = sm90::constants();
  const std::size_t shared = constants.size() - sm90::kernel_tactics().size();
  std::vector<double> values;
  std::vector<std::vector<const Row*>> concerns(constants.size());
  for (std::size_t c = 0; c < constants.size(); ++c)
    values.push_back(
        start_of(constants[c], c < shared ? nullptr : &sm90::tactics()[sm90::kernel_tactics()[c - shared].first]));
  for (const Row& row : rows) {
    const int kernel = static_cast<int>(sm90::tactics()[row.tactic].index());
    for (std::size_t c = 0; c < shared; ++c)
      if (kernels_of(constants[c].name) == 2 || kernels_of(constants[c].name) == kernel) concerns[c].push_back(&row);
    concerns[shared + row.kernel].push_back(&row);
  }
  const std::vector<double> starts = values;
  std::vector<bool> free;
  for (const auto& concerned : concerns) free.push_back(!concerned.empty());
  descend(values, free, [&](std::size_t constant) {
    const sm90::TimeModel model(values);
    double sum = kPull * std::abs(std::log(values[constant] / starts[constant]));
    for (const Row* row : concerns[constant]) {
      const double predicted = model.nanoseconds(row->tactic, row->call, device);
      sum += row->ns ? std::pow(row->best_ns / *row->ns, kWeightPower) * std::abs(std::log(predicted / *row->ns))
                     : std::max(0.0, std::log(kHopeless * row->best_ns / predicted));
    }
    return sum;
  });
  return values;
}

int run(const std::string& truth_file, const std::string& out_file) {
  const auto truth = read_truth(truth_file);
  if (!truth || truth->family != "sm90") {
    fmt::print(stderr, "sm90_model_fit: error: {}\n", truth ? "not the sm90 family" : truth.error().message());
    return 1;
  }
  const std::vector<Row> rows = rows_of(*truth);
  const std::vector<double> values = fit(rows, sm90::sm90_device(truth->resources.sm_count));
  std::string machine, date;
  for (const auto& [name, value] : truth->provenance) {
    if (name == "machine") machine = value;
    if (name == "date") date = value;
  }
  auto list = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < values.size(); ++c)
    list.push_back({{"name", sm90::constants()[c].name},
                    {"value", std::strtod(fmt::format("{:.4g}", values[c]).c_str(), nullptr)},
                    {"unit", sm90::constants()[c].unit},
                    {"source", truth_file},
                    {"method", "fitted by workbench/calibrate/sm90_model_fit.cc"}});
  const nlohmann::ordered_json document{
      {"schema", "pinch-machine/1"},
      {"name", "h200"},
      {"description", fmt::format("{}, recorded {}; {} rows of the fit half", machine, date, rows.size())},
      {"constants", std::move(list)}};
  std::ofstream out(out_file, std::ios::binary);
  out << document.dump(2) << "\n";
  out.close();
  if (!out) {
    fmt::print(stderr, "sm90_model_fit: error: {}: cannot be written\n", out_file);
    return 1;
  }
  fmt::print("{} rows, {} constants\n", rows.size(), values.size());
  return 0;
}

}  // namespace
}  // namespace pinch::calibrate

int main(int argc, char** argv) {
  std::string truth, out;
  CLI::App app("Fits the sm90 family's time model to recorded ground truth");
  app.add_option("--truth", truth, "The fit half")->required();
  app.add_option("--out", out, "The machine model")->required();
  CLI11_PARSE(app, argc, argv);
  return pinch::calibrate::run(truth, out);
}
