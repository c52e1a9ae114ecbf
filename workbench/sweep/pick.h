// From the trials of one problem to a verdict a point, a pick and findings: pure arithmetic, the same for trials just
// run, stored, simulated or replayed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "workbench/measure/statistics.h"
#include "workbench/measure/verdict.h"
#include "workbench/sweep/space.h"
#include "workbench/sweep/sweep_store.h"

namespace pinch::sweep {

/// A point with all that was measured of it.
struct Measured {
  Choice choice;
  std::string text;
  measure::Verdict verdict = measure::Verdict::kOk;
  std::string detail;
  std::string err;
  std::vector<double> samples;    ///< of the metric: a median a process, in the order of the rounds
  std::vector<int> rounds;        ///< of the samples
  std::vector<double> twin;       ///< of the default's second entry
  std::map<int, double> confirm;  ///< of the processes that confirmed a winner, by the winner's index among the points
  std::map<std::string, std::string> outputs;  ///< hashes
  std::string binary;
  std::string device;          ///< that all of its trials ran on; empty: none was named
  double against_default = 0;  ///< its cost over the default's on the same device; 0: unknown
  int trials = 0;

  /// Median of the samples; none unless the verdict is ok and there is a sample.
  [[nodiscard]] std::optional<double> metric() const;
};

/// Folds trials into their point, in the order given: the first verdict that is not ok stays. Outputs that differ from
/// the point's first ones, on the same inputs, give kUnstable where the change class is kReorder, else a remark.
void fold(Measured& point, const StoredTrial& stored, check::Change change);

struct PickPolicy {
  double tie_band = 0.02;  ///< medians closer than this are ties, even where the noise is lower
  bool lower_is_better = true;
};

struct Pick {
  const Measured* best = nullptr;     ///< null where nothing was measured
  const Measured* fastest = nullptr;  ///< the best median
  double aa_spread =
      0;              ///< of the default and its twin, the widest of the devices; infinite where neither has a sample
  double band = 0;    ///< within which medians are ties: the policy's, the A/A spread or the noise
  double regret = 0;  ///< of the default against the fastest, as a ratio of at least 1; 0: unknown
  bool surprising = false;  ///< the best is not the default, and was not confirmed yet
};

/// Costs of points, of which some are the default: one a device. A metric of which more is better costs its reciprocal.
/// Points of two devices are compared by how each stands to the default on its own.
class Costs {
 public:
  /// `standard`: index of the default on the first device. `points` must outlive this.
  Costs(const std::vector<Measured>& points, std::size_t standard, bool lower_is_better);

  [[nodiscard]] double of(double metric) const { return lower_is_better_ ? metric : 1 / metric; }
  /// As it would be on the first device; none without a metric.
  [[nodiscard]] std::optional<double> of(const Measured& point) const;
  /// How much worse `a` is than `b`: the median over the rounds that both have a sample of, so that what drifts falls
  /// out; with fewer than three of those, the ratio of the medians. Both have a metric.
  [[nodiscard]] double ratio(const Measured& a, const Measured& b) const;
  /// The default on the point's device; null where it has no metric.
  [[nodiscard]] const Measured* standard_beside(const Measured& point) const;

 private:
  [[nodiscard]] double ratio_on_one_device(const Measured& a, const Measured& b) const;
  std::map<std::string, const Measured*, std::less<>> standards_;  // by device, where they have a metric
  const Measured* first_ = nullptr;
  bool lower_is_better_;
};

/// The default where it ties with the best median, else the first tie in the order of `points`. `standard` is the
/// index of the default on the first device. A tie is a ratio of costs within the band. A best that is not the default
/// needs a confirming process that again beats the default's median; one that does not is passed over.
Pick pick(const std::vector<Measured>& points, std::size_t standard, const PickPolicy& policy);

/// Points within twice the band of the fastest: those between which the pick is decided.
std::vector<std::size_t> contenders(const std::vector<Measured>& points, std::size_t standard, const Pick& pick,
                                    const PickPolicy& policy);

struct Finding {
  std::string kind;  ///< "no_effect"
  std::string knob;
  std::string detail;
};

/// Knobs that change nothing: for every setting of the others under which two or more values were measured, either the
/// builds are the same file, or the outputs are equal and the medians, of three samples or more, lie within `band`,
/// which is at most 5%.
std::vector<Finding> no_effect(const Subject& subject, const std::vector<Measured>& points, const Costs& costs,
                               double band);

}  // namespace pinch::sweep
