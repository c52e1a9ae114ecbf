// A benchmark's result as JSON and as a table.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "workbench/ladder/bench.h"

namespace pinch::report {

/// {problem, machine, rows: [{name, kind, default, numerics, verdict, rel_l2, threads, weight_bytes, cold, warm}],
/// absent, ...}; "cold" and "warm" are {median_ns, q1_ns, q3_ns, accepted, taken, gflops, gbps, bound}, null where not
/// measured. `bound` is the roofline's time over the measured one.
nlohmann::ordered_json to_json(const ladder::BenchReport& report);

/// The same for people.
std::string to_table(const ladder::BenchReport& report);

}  // namespace pinch::report
