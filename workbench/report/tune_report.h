// A tune's result as JSON and as a table.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "workbench/ladder/tune.h"

namespace pinch::report {

/// {problem, machine, default, best, regret, picks: [{tactic, verdict, median_ns, q1_ns, q3_ns, samples, rel_l2, ...}],
/// cached, ...}. median_ns, q1_ns, q3_ns and samples are of the protocol that ranks; "cold" and "warm" hold both. What
/// was not measured is null.
nlohmann::ordered_json to_json(const ladder::TuneReport& report);

/// The same for people, best first; ends in a line feed. Long lists show the best, the default and what went wrong.
std::string to_table(const ladder::TuneReport& report);

}  // namespace pinch::report
