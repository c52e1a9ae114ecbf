// What a tune of a bundled kernel knows, as evidence for the ladder's rungs.
#pragma once

#include <span>

#include "workbench/ladder/climb.h"
#include "workbench/ladder/tune.h"

namespace pinch::ladder {

/// `ranked`: every legal tactic, best first, as Task::ranked gives them. Times are medians in ns of the protocol that
/// ranks.
Evidence evidence_of(const Task& task, std::span<const RankedTactic> ranked, const TuneReport& report);

}  // namespace pinch::ladder
