#include "pinch/study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/tactics/scan.h"

namespace pinch {
namespace {

// The rows of one problem, in file order.
struct Group {
  GemmProblem problem;
  std::vector<const TruthRow*> rows;
};

std::vector<Group> group_rows(const Truth& truth) {
  std::vector<Group> groups;
  for (const TruthRow& row : truth.rows) {
    const auto same = [&](const Group& group) { return group.problem == row.problem; };
    auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end()) found = groups.insert(groups.end(), Group{row.problem, {}});
    found->rows.push_back(&row);
  }
  return groups;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Collects one model's study, problem by problem.
class Student {
 public:
  Student(const TacticFamily& family, const Truth& truth, std::string_view model)
      : family_(family), truth_(truth), model_(model) {
    for (std::size_t index = 0; index < family.size(); ++index) indices_.emplace(family.to_string(index), index);
    study_.model = model;
  }

  Result<void> add(const Group& group) {
    const TruthRow* best = nullptr;
    const TruthRow* picked = nullptr;
    RankedTactic pick;
    for (const TruthRow* row : group.rows) {
      if (row->median_ns && (best == nullptr || *row->median_ns < *best->median_ns)) best = row;
      const auto known = indices_.find(row->tactic);
      if (known == indices_.end()) {
        add_once(study_.unknown_tactics, row->tactic);
        continue;
      }
      PINCH_ASSIGN(estimate, family_.estimate(model_, known->second, group.problem, truth_.resources));
      if (row->median_ns && estimate.unit == "ns") errors_.push_back(std::abs(estimate.cost / *row->median_ns - 1));
      const RankedTactic candidate{known->second, estimate};
      if (picked == nullptr || comes_before(family_, candidate, pick)) {
        pick = candidate;
        picked = row;
      }
    }
    const GemmProblem& p = group.problem;
    if (best == nullptr || picked == nullptr) {
      return Error{ErrorCode::kCorrupt, best == nullptr ? "no tactic was timed" : "no tactic of this build is listed",
                   fmt::format("m {} n {} k {}", p.m, p.n, p.k)};
    }
    StudiedProblem studied;
    studied.problem = p;
    studied.pick = picked->tactic;
    studied.best = best->tactic;
    studied.best_ns = *best->median_ns;
    if (pick.estimate.unit == "ns") studied.predicted_ns = pick.estimate.cost;
    studied.pick_ns = picked->median_ns;
    if (studied.pick_ns) {
      studied.regret = *studied.pick_ns / studied.best_ns;
    } else {
      add_once(study_.unmeasured_picks, picked->tactic);
    }
    study_.problems.push_back(std::move(studied));
    return {};
  }

  Study finish() {
    double log_sum = 0;
    int count = 0;
    for (const StudiedProblem& studied : study_.problems) {
      if (!studied.regret) continue;
      log_sum += std::log(*studied.regret);
      ++count;
      if (study_.worst && *study_.worst >= *studied.regret) continue;
      study_.worst = studied.regret;
      study_.worst_problem = studied.problem;
    }
    if (count > 0) study_.geomean = std::exp(log_sum / count);
    if (!errors_.empty()) study_.median_abs_error = median(std::move(errors_));
    return std::move(study_);
  }

 private:
  const TacticFamily& family_;
  const Truth& truth_;
  std::string_view model_;
  std::map<std::string, std::size_t> indices_;
  std::vector<double> errors_;
  Study study_;
};

}  // namespace

Result<Study> study_model(const TacticFamily& family, const Truth& truth, std::string_view model) {
  if (truth.family != family.name()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("ground truth of the {} family; the {} family was asked for", truth.family, family.name()),
                 "family"};
  }
  PINCH_ASSIGN(chosen, find_model(family, model));
  Student student(family, truth, chosen);
  for (const Group& group : group_rows(truth)) PINCH_TRY(student.add(group));
  return student.finish();
}

}  // namespace pinch
