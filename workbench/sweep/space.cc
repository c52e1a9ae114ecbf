#include "workbench/sweep/space.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>

#include "src/core/file_error.h"
#include "src/core/nearest.h"

namespace pinch::sweep {

Space::Space(const Subject& subject, Values problem, std::function<bool()> stop_requested)
    : subject_(subject), problem_(std::move(problem)), stop_requested_(std::move(stop_requested)) {}

double Space::raw_size() const {
  double size = 1;
  for (const Knob& knob : subject_.knobs) size *= static_cast<double>(knob.values.size());
  return size;
}

Choice Space::standard() const {
  Choice choice;
  for (const Knob& knob : subject_.knobs) choice.push_back(static_cast<std::uint32_t>(knob.standard));
  return choice;
}

Result<Values> Space::values(const Choice& choice) const {
  Values values = problem_;
  for (std::size_t i = 0; i < choice.size(); ++i) values[subject_.knobs[i].name] = subject_.knobs[i].values[choice[i]];
  for (const auto& [name, expression] : subject_.lets) {
    std::vector<const Value*> read;
    for (const std::string& each : expression.names()) read.push_back(&values.find(each)->second);
    PINCH_ASSIGN(value, expression.evaluate(read));
    values[name] = std::move(value);
  }
  return values;
}

std::string Space::text(const Choice& choice) const {
  std::string text;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", subject_.knobs[i].name,
                        listed(subject_.knobs[i].values[choice[i]], subject_.knobs[i].values));
  }
  return text;
}

Result<Choice> Space::parse(std::string_view text) const {
  Choice choice = standard();
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const std::size_t equals = std::min(rest.find_first_of("=,"), rest.size());
    const std::string_view name = rest.substr(0, equals);
    const Knob* knob = subject_.knob(name);
    if (knob == nullptr) {
      std::vector<std::string> names;
      for (const Knob& each : subject_.knobs) names.push_back(each.name);
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} is no knob; {}", quote_name(name), did_you_mean(std::string(name), names)), ""};
    }
    // A quoted text may hold commas, so the values are looked for, not the end.
    const std::string_view value = equals < rest.size() && rest[equals] == '=' ? rest.substr(equals + 1) : "";
    std::size_t length = 0;
    const auto found = std::find_if(knob->values.begin(), knob->values.end(), [&](const Value& each) {
      const std::string each_text = listed(each, knob->values);
      length = each_text.size();
      return value.substr(0, length) == each_text && (value.size() == length || value[length] == ',');
    });
    if (found == knob->values.end()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} is no value of knob {}", quote_name(value.substr(0, value.find(','))), name), ""};
    }
    choice[static_cast<std::size_t>(knob - subject_.knobs.data())] =
        static_cast<std::uint32_t>(found - knob->values.begin());
    at += equals + 1 + length + 1;
  }
  return choice;
}

Result<const Rule*> Space::broken(const Choice& choice) const {
  if (subject_.rules.empty()) return static_cast<const Rule*>(nullptr);
  PINCH_ASSIGN(all, values(choice));
  for (const Rule& rule : subject_.rules) {
    std::vector<const Value*> read;
    for (const std::string& each : rule.require.names()) read.push_back(&all.find(each)->second);
    PINCH_ASSIGN(holds, rule.require.holds(read));
    if (!holds) return &rule;
  }
  return static_cast<const Rule*>(nullptr);
}

// --- Search ---------------------------------------------------------------------------------------------------------

// Variables are numbered: axes, then knobs, then lets. A variable is open (null) until its value is known; an open one
// has bounds.
class Space::Search {
 public:
  Search(const Space& space, const std::function<bool(const Choice&)>& visit, std::vector<double>* excluded)
      : subject_(space.subject_), stop_requested_(space.stop_requested_), visit_(visit), excluded_(excluded) {
    std::vector<std::string> names;
    for (const Axis& axis : subject_.problem) names.push_back(axis.name);
    first_knob_ = names.size();
    for (const Knob& knob : subject_.knobs) names.push_back(knob.name);
    first_let_ = names.size();
    for (const auto& [name, expression] : subject_.lets) names.push_back(name);
    value_.resize(names.size());
    bounds_.resize(names.size());
    let_values_.resize(subject_.lets.size());
    choice_.resize(subject_.knobs.size());
    for (std::size_t i = 0; i < first_knob_; ++i) value_[i] = &space.problem_.find(names[i])->second;
    for (std::size_t i = 0; i < subject_.knobs.size(); ++i) bounds_[first_knob_ + i] = bounds_of(subject_.knobs[i]);
    const auto bind = [&](const Expression& expression) {
      Bound bound{&expression, {}, {}, {}, {}};
      for (const std::string& name : expression.names()) {
        const auto variable = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
        bound.variables.push_back(variable);
        if (variable >= first_let_) {
          const auto& inner = lets_[variable - first_let_].knobs;
          bound.knobs.insert(inner.begin(), inner.end());
        } else if (variable >= first_knob_) {
          bound.knobs.insert(variable - first_knob_);
        }
      }
      bound.values.resize(bound.variables.size());
      bound.bounds.resize(bound.variables.size());
      return bound;
    };
    for (const auto& [name, expression] : subject_.lets) lets_.push_back(bind(expression));
    for (const Rule& rule : subject_.rules) rules_.push_back(bind(rule.require));
    order_knobs();
  }

  // Only what differs from `from` in at most so many knobs, and only so many steps.
  void stay_near(const Choice& from, std::size_t changes, std::size_t steps) {
    from_ = &from;
    may_change_ = changes;
    steps_left_ = steps;
  }
  [[nodiscard]] std::size_t steps_left() const { return steps_left_; }
  [[nodiscard]] bool left_out() const { return left_out_; }  // something was too far

  Result<void> run() {
    update_lets(-1);
    if (excluded_ != nullptr) excluded_->assign(rules_.size(), 0);
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      PINCH_ASSIGN(holds, can_hold(rules_[rule]));
      if (holds) continue;
      if (excluded_ != nullptr) (*excluded_)[rule] += remaining_[0];
      return {};
    }
    return descend(0);
  }

 private:
  struct Bound {
    const Expression* expression;
    std::vector<std::size_t> variables;  // one a name
    std::set<std::size_t> knobs;         // that decide it, through lets too
    std::vector<const Value*> values;    // scratch
    std::vector<Bounds> bounds;
  };

  static Bounds bounds_of(const Knob& knob) {
    Bounds bounds{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (const Value& value : knob.values) {
      if (value.index() != 1 && value.index() != 2) return {};
      bounds.low = std::min(bounds.low, number_of(value));
      bounds.high = std::max(bounds.high, number_of(value));
    }
    return bounds;
  }

  // Always the rule with the fewest open combinations next, its knobs with few values first; knobs of no rule last.
  void order_knobs() {
    std::set<std::size_t> placed;
    const auto place = [&](std::set<std::size_t> knobs) {
      std::vector<std::size_t> list(knobs.begin(), knobs.end());
      std::stable_sort(list.begin(), list.end(), [&](std::size_t a, std::size_t b) {
        return subject_.knobs[a].values.size() < subject_.knobs[b].values.size();
      });
      for (const std::size_t knob : list) {
        if (placed.insert(knob).second) order_.push_back(knob);
      }
    };
    for (;;) {
      const Bound* next = nullptr;
      double fewest = 0;
      for (const Bound& rule : rules_) {
        double open = 1;
        bool any = false;
        for (const std::size_t knob : rule.knobs) {
          if (placed.contains(knob)) continue;
          any = true;
          open *= static_cast<double>(subject_.knobs[knob].values.size());
        }
        if (any && (next == nullptr || open < fewest)) {
          next = &rule;
          fewest = open;
        }
      }
      if (next == nullptr) break;
      place(next->knobs);
    }
    std::set<std::size_t> all;
    for (std::size_t i = 0; i < subject_.knobs.size(); ++i) all.insert(i);
    place(all);
    remaining_.assign(order_.size() + 1, 1);
    for (std::size_t depth = order_.size(); depth-- > 0;) {
      remaining_[depth] = remaining_[depth + 1] * static_cast<double>(subject_.knobs[order_[depth]].values.size());
    }
    for (const std::size_t knob : order_) {
      std::vector<std::size_t> rules;
      for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
        if (rules_[rule].knobs.contains(knob)) rules.push_back(rule);
      }
      rules_of_depth_.push_back(std::move(rules));
    }
  }

  void load(Bound& bound) {
    for (std::size_t i = 0; i < bound.variables.size(); ++i) {
      bound.values[i] = value_[bound.variables[i]];
      bound.bounds[i] = bounds_[bound.variables[i]];
    }
  }

  // Lets that `knob` decides (all of them for -1): their value where it is known, else bounds.
  void update_lets(int knob) {
    for (std::size_t i = 0; i < lets_.size(); ++i) {
      Bound& let = lets_[i];
      if (knob >= 0 && !let.knobs.contains(static_cast<std::size_t>(knob))) continue;
      load(let);
      value_[first_let_ + i] = nullptr;
      if (std::find(let.values.begin(), let.values.end(), nullptr) == let.values.end()) {
        // One that fails stays open: a rule may exclude the point all the same. visit_point() reports the others.
        auto value = let.expression->evaluate(let.values);
        bounds_[first_let_ + i] = {};
        if (!value.ok()) continue;
        let_values_[i] = std::move(*value);
        value_[first_let_ + i] = &let_values_[i];
      } else {
        bounds_[first_let_ + i] = let.expression->bounds(let.values, let.bounds);
      }
    }
  }

  Result<bool> can_hold(Bound& rule) {
    load(rule);
    if (std::find(rule.values.begin(), rule.values.end(), nullptr) != rule.values.end()) {
      return rule.expression->possible(rule.values, rule.bounds).yes;
    }
    return rule.expression->holds(rule.values);
  }

  Result<void> visit_point() {
    for (std::size_t i = 0; i < lets_.size(); ++i) {
      load(lets_[i]);
      if (value_[first_let_ + i] == nullptr) PINCH_TRY(lets_[i].expression->evaluate(lets_[i].values));
    }
    stopped_ = !visit_(choice_);
    return {};
  }

  // Counts a step, and asks now and then whether to stop: a rule that prunes nothing may cost hours.
  Result<void> step() {
    constexpr std::size_t kStepsBetween = 1 << 12;
    if (++steps_ % kStepsBetween == 0 && stop_requested_ && stop_requested_()) {
      return Error{ErrorCode::kInterrupted, "stopped", ""};
    }
    if (--steps_left_ == 0) stopped_ = true;
    return {};
  }

  Result<void> descend(std::size_t depth) {
    if (depth == order_.size()) return visit_point();
    const std::size_t knob = order_[depth];
    const std::vector<Value>& values = subject_.knobs[knob].values;
    for (std::size_t i = 0; i < values.size() && !stopped_; ++i) {
      const bool changes = from_ != nullptr && (*from_)[knob] != i;
      if (changes && changed_ == may_change_) {
        left_out_ = true;
        continue;
      }
      PINCH_TRY(step());
      choice_[knob] = static_cast<std::uint32_t>(i);
      value_[first_knob_ + knob] = &values[i];
      update_lets(static_cast<int>(knob));
      bool legal = true;
      for (const std::size_t rule : rules_of_depth_[depth]) {
        PINCH_ASSIGN(holds, can_hold(rules_[rule]));
        legal = holds;
        if (legal) continue;
        if (excluded_ != nullptr) (*excluded_)[rule] += remaining_[depth + 1];
        break;
      }
      changed_ += changes ? 1 : 0;
      if (legal) PINCH_TRY(descend(depth + 1));
      changed_ -= changes ? 1 : 0;
    }
    value_[first_knob_ + knob] = nullptr;
    update_lets(static_cast<int>(knob));
    return {};
  }

  const Subject& subject_;
  const std::function<bool()>& stop_requested_;
  const std::function<bool(const Choice&)>& visit_;
  std::vector<double>* excluded_;
  std::size_t first_knob_ = 0, first_let_ = 0;
  std::vector<const Value*> value_;
  std::vector<Bounds> bounds_;
  std::vector<Value> let_values_;
  std::vector<Bound> lets_, rules_;
  std::vector<std::size_t> order_;
  std::vector<double> remaining_;  // combinations of the knobs from this depth on
  std::vector<std::vector<std::size_t>> rules_of_depth_;
  Choice choice_;
  bool stopped_ = false;
  const Choice* from_ = nullptr;
  std::size_t may_change_ = 0, changed_ = 0;
  std::size_t steps_ = 0, steps_left_ = std::numeric_limits<std::size_t>::max();
  bool left_out_ = false;
};

Result<void> Space::each_legal(const std::function<bool(const Choice&)>& visit, std::vector<double>* excluded) const {
  return Search(*this, visit, excluded).run();
}

Result<Space::Nearest> Space::nearest_legal(const Choice& from, std::size_t steps) const {
  Nearest nearest;
  const std::function<bool(const Choice&)> visit = [&](const Choice& choice) {
    if (!nearest.choice || choice < *nearest.choice) nearest.choice = choice;
    return true;
  };
  // Nothing nearer is legal when a distance is searched, so all that is found there is at that distance.
  for (bool farther = true; farther && !nearest.choice; ++nearest.changed) {
    Search search(*this, visit, nullptr);
    search.stay_near(from, nearest.changed, steps);
    PINCH_TRY(search.run());
    steps = search.steps_left();
    nearest.gave_up = steps == 0;
    farther = search.left_out() && !nearest.gave_up;
  }
  --nearest.changed;
  return nearest;
}

std::vector<Values> problems(const Subject& subject) {
  std::vector<Values> list = {{}};
  for (const Axis& axis : subject.problem) {
    std::vector<Values> longer;
    for (const Values& each : list) {
      for (const Value& value : axis.values) {
        longer.push_back(each);
        longer.back()[axis.name] = value;
      }
    }
    list = std::move(longer);
  }
  return list;
}

std::string problem_text(const Subject& subject, const Values& problem) {
  std::string text;
  for (const Axis& axis : subject.problem) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name,
                        listed(problem.find(axis.name)->second, axis.values));
  }
  return text;
}

}  // namespace pinch::sweep
