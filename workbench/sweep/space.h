// The points of a subject at one problem, and which rule refuses which.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/sweep/subject_file.h"

namespace pinch::sweep {

/// A value of each knob, by its index in Knob::values, in the order of Subject::knobs.
using Choice = std::vector<std::uint32_t>;

class Space {
 public:
  /// `problem`: a value of each axis. The subject must outlive the space. `stop_requested` is asked while points are
  /// searched for, which then ends in kInterrupted.
  Space(const Subject& subject, Values problem, std::function<bool()> stop_requested = {});

  [[nodiscard]] const Values& problem() const { return problem_; }
  /// Combinations of knob values, legal or not.
  [[nodiscard]] double raw_size() const;
  [[nodiscard]] Choice standard() const;
  /// Every name's value at a point: axes, knobs, lets. Errors: those of evaluating a let.
  [[nodiscard]] Result<Values> values(const Choice& choice) const;
  /// "tile=16,layout=row"; the same text is a point's key everywhere.
  [[nodiscard]] std::string text(const Choice& choice) const;
  /// The inverse. Errors: kInvalidArgument naming what is no knob or no value.
  [[nodiscard]] Result<Choice> parse(std::string_view text) const;
  /// The first rule that the point breaks, constraints before contracts. Errors: those of evaluating a rule.
  [[nodiscard]] Result<const Rule*> broken(const Choice& choice) const;

  /// Visits the points that break no rule, without visiting the others one by one: knobs are chosen in the order that
  /// decides rules soonest, and a partial choice is left as soon as a rule can no longer hold. The order of the visits
  /// is unspecified; `visit` returns false to stop. `excluded` (a number a rule, may be null) counts the combinations
  /// that each rule refused, by the first one found. Errors: those of evaluating a rule or a let.
  Result<void> each_legal(const std::function<bool(const Choice&)>& visit, std::vector<double>* excluded) const;

  struct Nearest {
    std::optional<Choice> choice;
    std::size_t changed = 0;  ///< knobs in which it differs; none found: so many were tried, and fewer
    bool gave_up = false;     ///< the steps were used up before it was sure that there is none
  };
  /// The legal point that differs from `from` in the fewest knobs, the first in order among equals. A step gives one
  /// knob one value; what is nearest after `steps` of them is returned. Errors: as each_legal().
  [[nodiscard]] Result<Nearest> nearest_legal(const Choice& from, std::size_t steps) const;

 private:
  class Search;
  const Subject& subject_;
  Values problem_;
  std::function<bool()> stop_requested_;
};

/// Every combination of the axes' values.
std::vector<Values> problems(const Subject& subject);

/// "m=64,k=256"; empty where the subject has no axes.
std::string problem_text(const Subject& subject, const Values& problem);

}  // namespace pinch::sweep
