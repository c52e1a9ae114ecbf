// Something tunable: a family of tactics on one problem, whose calls can be checked and timed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "pinch/tactics.h"
#include "workbench/measure/rounds.h"
#include "workbench/measure/verdict.h"

namespace pinch::ladder {

/// One call of a tactic against the reference.
struct Checked {
  measure::Verdict verdict = measure::Verdict::kOk;
  std::string why;               ///< of a verdict that is not ok
  std::optional<double> rel_l2;  ///< of the output, where there was one
  int threads = 1;               ///< that a call keeps busy
  double call_ns = 0;            ///< of one call: an estimate that sizes samples, never a result
};

class Subject {
 public:
  virtual ~Subject() = default;
  [[nodiscard]] virtual const TacticList& family() const = 0;
  /// Every legal tactic, best first. Errors: those of rank_tactics.
  [[nodiscard]] virtual Result<std::vector<RankedTactic>> ranked() const = 0;
  /// Runs the tactic on poisoned outputs and compares them; nothing that it gets wrong is ever timed.
  virtual Checked check(std::size_t tactic) = 0;
};

/// One whose calls the CPU's clocks time. Runner::run takes an index of the family, and only one that check() found ok.
class HostSubject : public Subject, public measure::Runner {};

}  // namespace pinch::ladder
