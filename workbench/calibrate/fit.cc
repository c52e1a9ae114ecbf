#include "workbench/calibrate/fit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "workbench/calibrate/descent.h"
#include "workbench/measure/statistics.h"

namespace pinch::calibrate {
namespace {

// Where a fit starts, by name and unit.
double start_of(const CpuConstant& constant, const KnownConstants& known) {
  if (constant.name == "l1d") return known.l1d_bytes;
  if (constant.name == "l2") return known.l2_bytes;
  if (constant.name == "threads.fork") return 3000;
  if (constant.name == "gemm.call") return 50;
  if (constant.unit == "GB/s") return 20;
  if (constant.unit == "ratio") return 0.2;
  return 0.1;
}

// 100 multiply-adds a nanosecond.
double start_of(const CpuKernel& kernel) {
  return kernel.tile_m * kernel.tile_n / 100.0;
}

// Weight of a constant's distance from its start: next to nothing beside the rows, but enough that one which the rows
// say nothing about stays where it is sensible.
constexpr double kPull = 0.02;

bool is_known(const CpuConstant& constant) {
  return constant.unit == "bytes";
}

class Fit {
 public:
  Fit(const FitData& data, const KnownConstants& known, const std::vector<bool>& use) : data_(data) {
    const auto constants = cpu_constants();
    const std::size_t first_kernel = constants.size() - cpu_kernels().size();
    for (std::size_t c = 0; c < first_kernel; ++c) values_.push_back(start_of(constants[c], known));
    for (const CpuKernel& kernel : cpu_kernels()) values_.push_back(start_of(kernel));
    starts_ = values_;
    concerns_.resize(constants.size());
    for (std::size_t row = 0; row < data.rows.size(); ++row) {
      if (!use[data.rows[row].problem]) continue;
      for (std::size_t c = 0; c < first_kernel; ++c) concerns_[c].push_back(row);
      concerns_[first_kernel + kernel_of_tactic()[data.rows[row].tactic]].push_back(row);
    }
  }

  std::vector<double> run() {
    std::vector<bool> free;
    for (std::size_t c = 0; c < values_.size(); ++c)
      free.push_back(!is_known(cpu_constants()[c]) && !concerns_[c].empty());
    // Kernels first: their constants are well determined, and the shared ones explain what remains.
    descend(values_, free, [this](std::size_t constant) { return loss(constant); });
    return values_;
  }

 private:
  double loss(std::size_t constant) const {
    const CpuTimeModel model(values_);
    double sum = kPull * std::abs(std::log(values_[constant] / starts_[constant]));
    for (const std::size_t index : concerns_[constant]) {
      const TimedRow& row = data_.rows[index];
      const TimedProblem& p = data_.problems[row.problem];
      const double predicted = model.estimate(row.tactic, p.problem, data_.threads).cost;
      sum += row.ns ? p.best_ns / *row.ns * std::abs(std::log(predicted / *row.ns))
                    : std::max(0.0, std::log(kHopeless * p.best_ns / predicted));
    }
    return sum;
  }

  const FitData& data_;
  std::vector<double> values_, starts_;
  std::vector<std::vector<std::size_t>> concerns_;  // [constant] rows whose prediction it changes
};

}  // namespace

FitData fit_data(const Truth& truth) {
  FitData data;
  data.threads = truth.resources.threads;
  std::map<std::string, std::size_t> indices;
  for (std::size_t index = 0; index < cpu_tactics().size(); ++index) indices[to_string(cpu_tactics()[index])] = index;
  for (const TruthRow& row : truth.rows) {
    const auto known = indices.find(row.tactic);
    if ((!row.median_ns && row.verdict != "hopeless") || known == indices.end()) continue;
    auto problem = std::find_if(data.problems.begin(), data.problems.end(),
                                [&](const TimedProblem& p) { return p.problem == row.problem; });
    if (problem == data.problems.end()) {
      problem = data.problems.insert(data.problems.end(), TimedProblem{row.problem, INFINITY});
    }
    if (row.median_ns) problem->best_ns = std::min(problem->best_ns, *row.median_ns);
    data.rows.push_back({known->second, static_cast<std::size_t>(problem - data.problems.begin()), row.median_ns});
  }
  return data;
}

std::vector<double> fit_constants(const FitData& data, const KnownConstants& known, const std::vector<bool>& use) {
  return Fit(data, known, use).run();
}

FitQuality quality(const FitData& data, std::span<const double> constants, const std::vector<bool>& use) {
  const CpuTimeModel model({constants.begin(), constants.end()});
  std::vector<double> errors;
  std::vector<double> predicted_best(data.problems.size(), INFINITY), pick_ns(data.problems.size(), INFINITY);
  for (const TimedRow& row : data.rows) {
    const TimedProblem& p = data.problems[row.problem];
    if (!use[row.problem]) continue;
    const double predicted = model.estimate(row.tactic, p.problem, data.threads).cost;
    if (row.ns && *row.ns <= 2 * p.best_ns) errors.push_back(std::abs(predicted / *row.ns - 1));
    if (predicted < predicted_best[row.problem]) {
      predicted_best[row.problem] = predicted;
      pick_ns[row.problem] = row.ns.value_or(kHopeless * p.best_ns);
    }
  }
  FitQuality result;
  double log_sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < data.problems.size(); ++i) {
    if (!use[i]) continue;
    const double regret = pick_ns[i] / data.problems[i].best_ns;
    log_sum += std::log(regret);
    ++count;
    result.worst_regret = std::max(result.worst_regret, regret);
  }
  if (count > 0) result.geomean_regret = std::exp(log_sum / count);
  result.median_abs_error = measure::summarize(std::move(errors)).median;
  return result;
}

}  // namespace pinch::calibrate
