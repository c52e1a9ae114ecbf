// The plain ways to compare tactics, which the short cuts are tested and timed against.
#pragma once

#include "pinch/tactics.h"

namespace pinch {

/// The order of a ranking: smaller cost first, then smaller tie_key.
bool comes_before(const TacticList& family, const RankedTactic& a, const RankedTactic& b);

/// The first in that order of the legal tactics among `indices`; nothing where none is legal. `model` must be one of
/// the family's names.
Result<std::optional<RankedTactic>> cheapest_of(const TacticFamily& family, std::span<const std::uint32_t> indices,
                                                std::string_view model, const GemmProblem& problem,
                                                const Resources& resources);

/// The same among all tactics of the family: what every shorter way must equal.
Result<std::optional<RankedTactic>> scan_for_cheapest(const TacticFamily& family, std::string_view model,
                                                      const GemmProblem& problem, const Resources& resources);

}  // namespace pinch
