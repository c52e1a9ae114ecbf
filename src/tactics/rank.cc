#include <fmt/core.h>

#include <algorithm>

#include "pinch/tactics.h"
#include "src/tactics/default_memo.h"
#include "src/tactics/scan.h"

namespace pinch {
namespace {

// The common reason where every tactic is refused for the same one, else the first with the count of the others.
Error none_legal(const TacticFamily& family, const GemmProblem& problem, const Resources& resources) {
  const auto reason = family.illegal(0, problem, resources).value_or("no tactics");
  std::size_t alike = 0;
  for (std::size_t index = 0; index < family.size(); ++index) {
    if (family.illegal(index, problem, resources) == reason) ++alike;
  }
  if (alike == family.size()) return {ErrorCode::kIllegal, reason, ""};
  return {ErrorCode::kIllegal,
          fmt::format("none of the {} tactics is legal; {} for {}, and other reasons for the rest", family.size(),
                      reason, family.to_string(0)),
          ""};
}

// First of the legal tactics among `count` indices; nothing where none is legal.
template <class IndexAt>
Result<std::optional<RankedTactic>> first_of(const TacticFamily& family, const GemmProblem& problem,
                                             const Resources& resources, std::string_view model, std::size_t count,
                                             IndexAt index_at) {
  std::optional<RankedTactic> best;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = index_at(i);
    if (family.illegal(index, problem, resources)) continue;
    const auto estimate = family.estimate(model, index, problem, resources);
    if (!estimate) return estimate.error();
    const RankedTactic candidate{index, *estimate};
    if (!best || comes_before(family, candidate, *best)) best = candidate;
  }
  return best;
}

Result<RankedTactic> pick(const TacticFamily& family, const GemmProblem& problem, const Resources& resources,
                          std::string_view model) {
  PINCH_TRY(validate(problem));
  const auto contenders = family.contenders(model);
  if (contenders.empty()) return scan_default(family, problem, resources, model);
  PINCH_ASSIGN(best, first_of(family, problem, resources, model, contenders.size(),
                              [&](std::size_t i) { return contenders[i]; }));
  if (!best) return none_legal(family, problem, resources);
  return *best;
}

}  // namespace

bool comes_before(const TacticFamily& family, const RankedTactic& a, const RankedTactic& b) {
  if (a.estimate.cost != b.estimate.cost) return a.estimate.cost < b.estimate.cost;
  return family.tie_key(a.index) < family.tie_key(b.index);
}

Result<RankedTactic> scan_default(const TacticFamily& family, const GemmProblem& problem, const Resources& resources,
                                  std::string_view model) {
  PINCH_TRY(validate(problem));
  PINCH_ASSIGN(best, first_of(family, problem, resources, model, family.size(), [](std::size_t i) { return i; }));
  if (!best) return none_legal(family, problem, resources);
  return *best;
}

Result<std::vector<RankedTactic>> rank_tactics(const TacticFamily& family, const GemmProblem& problem,
                                               const Resources& resources, std::string_view model) {
  PINCH_TRY(validate(problem));
  PINCH_ASSIGN(chosen, find_model(family, model));
  std::vector<RankedTactic> ranked;
  for (std::size_t index = 0; index < family.size(); ++index) {
    if (family.illegal(index, problem, resources)) continue;
    PINCH_ASSIGN(estimate, family.estimate(chosen, index, problem, resources));
    ranked.push_back({index, estimate});
  }
  if (ranked.empty()) return none_legal(family, problem, resources);
  std::sort(ranked.begin(), ranked.end(),
            [&](const RankedTactic& a, const RankedTactic& b) { return comes_before(family, a, b); });
  return ranked;
}

Result<RankedTactic> default_tactic(const TacticFamily& family, const GemmProblem& problem, const Resources& resources,
                                    std::string_view model) {
  static constinit DefaultMemo memo;
  const auto models = family.models();
  const std::size_t place = model.empty() ? 0 : std::find(models.begin(), models.end(), model) - models.begin();
  if (place == models.size()) return find_model(family, model).error();
  const auto key = DefaultMemo::Key::of(family, place, problem, resources);
  if (const auto known = memo.find(key)) return *known;
  PINCH_ASSIGN(best, pick(family, problem, resources, models[place]));
  memo.store(key, best);
  return best;
}

}  // namespace pinch
