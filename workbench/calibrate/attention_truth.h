// Recorded times of the sm90_attention family: the CSV that tests/gpu/attention_time.cc writes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pinch/attention_problem.h"
#include "pinch/result.h"

namespace pinch::calibrate {

struct AttentionTime {
  AttentionProblem problem;
  std::size_t tactic = 0;  ///< of attention::sm90::tactics()
  double ns = 0;           ///< of a whole call, what is prepared for fp8 and fp4 included
};

/// Rows of tactics that this build lists; of rows in parts ("attend", "both") the whole call's. Errors: kNotFound,
/// kCorrupt, naming the line.
Result<std::vector<AttentionTime>> read_attention_times(const std::string& path);

/// The rows of each problem, in the order in which the problems come; they point into `rows`.
std::vector<std::vector<const AttentionTime*>> by_problem(const std::vector<AttentionTime>& rows);

}  // namespace pinch::calibrate
