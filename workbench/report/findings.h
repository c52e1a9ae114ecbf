// The seven findings of a ladder as JSON and as a table.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "workbench/ladder/finding.h"

namespace pinch::report {

/// [{rung, verdict, bound_percent, evidence, command, why}], in the ladder's order.
nlohmann::ordered_json findings_json(std::span<const ladder::Finding> findings);
/// {rung, bound_percent} of the finding with most headroom, or null.
nlohmann::ordered_json next_json(std::span<const ladder::Finding> findings);
/// A line a rung, the command below those that were not measured, and what to try next.
std::string findings_table(std::span<const ladder::Finding> findings);

}  // namespace pinch::report
