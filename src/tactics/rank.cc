#include <fmt/core.h>

#include <algorithm>

#include "pinch/tactics.h"
#include "src/tactics/default_memo.h"
#include "src/tactics/scan.h"

namespace pinch {
namespace {

// The common reason where every tactic is refused for the same one, else the first with the count of the others.
template <class Problem>
Error none_legal(const TacticFamilyFor<Problem>& family, const Problem& problem, const Resources& resources) {
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

template <class Problem>
Result<void> consider(std::optional<RankedTactic>& best, const TacticFamilyFor<Problem>& family, std::size_t index,
                      std::string_view model, const Problem& problem, const Resources& resources) {
  if (family.illegal(index, problem, resources)) return {};
  const auto estimate = family.estimate(model, index, problem, resources);
  if (!estimate) return estimate.error();
  const RankedTactic candidate{index, *estimate};
  if (!best || comes_before(family, candidate, *best)) best = candidate;
  return {};
}

template <class Problem>
Result<std::optional<RankedTactic>> scan(const TacticFamilyFor<Problem>& family, std::string_view model,
                                         const Problem& problem, const Resources& resources) {
  std::optional<RankedTactic> best;
  for (std::size_t index = 0; index < family.size(); ++index) {
    PINCH_TRY(consider(best, family, index, model, problem, resources));
  }
  return best;
}

template <class Problem>
Result<std::vector<RankedTactic>> rank(const TacticFamilyFor<Problem>& family, const Problem& problem,
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

}  // namespace

bool comes_before(const TacticList& family, const RankedTactic& a, const RankedTactic& b) {
  if (a.estimate.cost != b.estimate.cost) return a.estimate.cost < b.estimate.cost;
  return family.tie_key(a.index) < family.tie_key(b.index);
}

Result<std::optional<RankedTactic>> cheapest_of(const TacticFamily& family, std::span<const std::uint32_t> indices,
                                                std::string_view model, const GemmProblem& problem,
                                                const Resources& resources) {
  std::optional<RankedTactic> best;
  for (const std::uint32_t index : indices) PINCH_TRY(consider(best, family, index, model, problem, resources));
  return best;
}

Result<std::optional<RankedTactic>> scan_for_cheapest(const TacticFamily& family, std::string_view model,
                                                      const GemmProblem& problem, const Resources& resources) {
  return scan(family, model, problem, resources);
}

template <class Problem>
Result<std::optional<RankedTactic>> TacticFamilyFor<Problem>::cheapest(std::string_view model, const Problem& problem,
                                                                       const Resources& resources) const {
  return scan(*this, model, problem, resources);
}
template class TacticFamilyFor<GemmProblem>;
template class TacticFamilyFor<AttentionProblem>;

Result<std::vector<RankedTactic>> rank_tactics(const TacticFamily& family, const GemmProblem& problem,
                                               const Resources& resources, std::string_view model) {
  return rank(family, problem, resources, model);
}
Result<std::vector<RankedTactic>> rank_tactics(const AttentionTacticFamily& family, const AttentionProblem& problem,
                                               const Resources& resources, std::string_view model) {
  return rank(family, problem, resources, model);
}

Result<RankedTactic> default_tactic(const TacticFamily& family, const GemmProblem& problem, const Resources& resources,
                                    std::string_view model) {
  static constinit DefaultMemo memo;
  const auto models = family.models();
  const std::size_t place = model.empty() ? 0 : std::find(models.begin(), models.end(), model) - models.begin();
  if (place == models.size()) return find_model(family, model).error();
  const auto key = DefaultMemo::Key::of(family, place, problem, resources);
  if (const auto known = memo.find(key)) return *known;
  PINCH_TRY(validate(problem));
  PINCH_ASSIGN(best, family.cheapest(models[place], problem, resources));
  if (!best) return none_legal(family, problem, resources);
  memo.store(key, *best);
  return *best;
}

Result<RankedTactic> default_tactic(const AttentionTacticFamily& family, const AttentionProblem& problem,
                                    const Resources& resources, std::string_view model) {
  PINCH_TRY(validate(problem));
  PINCH_ASSIGN(chosen, find_model(family, model));
  PINCH_ASSIGN(best, family.cheapest(chosen, problem, resources));
  if (!best) return none_legal(family, problem, resources);
  return *best;
}

}  // namespace pinch
