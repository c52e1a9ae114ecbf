// Sweeping one problem of a subject: which points, in which order, how often, and what came of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/sweep/pick.h"
#include "workbench/sweep/space.h"
#include "workbench/sweep/sweep_store.h"

namespace pinch::sweep {

enum class Strategy : std::uint8_t {
  kAll,      ///< every legal point, `repeats` times
  kRandom,   ///< `points` of them
  kHalving,  ///< each once, then the better half, until four are left
  kLocal,    ///< from the default to the best neighbour while one is better, then again from a random point
};
constexpr std::string_view to_string(Strategy strategy) {
  constexpr std::string_view kNames[] = {"all", "random", "halving", "local"};
  return kNames[static_cast<std::size_t>(strategy)];
}

struct Options {
  Strategy strategy = Strategy::kAll;
  std::size_t points = 0;  ///< at most so many are run; 0: no limit (kRandom: 100, kLocal: 200)
  double budget_s = 0;     ///< nothing new is started after; 0: no limit
  int repeats = 5;         ///< rounds, each of one process a point
  std::uint64_t seed = 1;
  /// One trial at a time on each, every point on one of them and the default on all. One that stands here twice takes
  /// two at a time. Empty: one at a time, device left alone.
  std::vector<std::string> devices;
  PickPolicy policy;
};

struct Hooks {
  std::function<bool()> stop_requested;
  /// `done` of about `total` trials, the one that ended.
  std::function<void(std::size_t done, std::size_t total, const StoredTrial& ended)> trial_ended;
  /// Stores a trial; an error ends the sweep.
  std::function<Result<void>(const StoredTrial&)> store;
};

struct Refused {
  Choice choice;
  std::string text;
  const Rule* rule = nullptr;
};
struct Excluded {
  const Rule* rule = nullptr;
  double count = 0;  ///< combinations that this rule refused first
};

struct ProblemResult {
  Values problem;
  std::string text;
  double combinations = 0;
  std::size_t legal = 0;
  std::vector<Measured> points;     ///< that were run; the default first, then in the order of their knobs' values
  std::vector<Measured> elsewhere;  ///< the default on the devices but the first
  std::vector<Refused> refused;     ///< one by one where there are at most 4096 combinations
  std::vector<Excluded> excluded;   ///< always
  std::size_t not_run = 0;          ///< legal ones that the strategy or the budget left out
  std::optional<std::size_t> best, fastest;  ///< indices into points
  double aa_spread = 0, band = 0, regret = 0;
  bool confirmed = true;  ///< false: the best differs from the default and no further process showed it again
  std::vector<Finding> findings;
  bool interrupted = false;
};

/// Every combination of the knobs' values, legal or not, where there are at most 4096: those are rows one by one.
Result<void> each_row(const Space& space, const Subject& subject,
                      const std::function<Result<void>(const Choice&)>& visit);

/// The points a sweep may run, the default first, the others in the order of their knobs' values. Fills what the rules
/// refused. Errors: those of evaluating rules; kInvalidArgument where the default itself breaks a rule, or where more
/// than a million points are legal.
Result<std::vector<Choice>> plan(const Space& space, const Subject& subject, ProblemResult& result);

/// Runs points for the sweep: real processes, a recorded file, or a simulation.
class Executor {
 public:
  virtual ~Executor() = default;
  /// The points there are, as plan() gives them and fills the result.
  virtual Result<std::vector<Choice>> points(const Space& space, const Subject& subject, ProblemResult& result) {
    return plan(space, subject, result);
  }
  /// Called once a problem, with the points that may be run: builds and inputs. Errors end the sweep.
  virtual Result<void> prepare(const Space& /*space*/, const std::vector<Choice>& /*points*/) { return {}; }
  /// Errors end the sweep; what is wrong with a point is its verdict. Called from one thread a device, which the key
  /// names.
  virtual Result<Trial> run(const Space& space, const Choice& choice, const TrialKey& key) = 0;
};

/// `stored`: trials of an earlier start, which are not run again.
Result<ProblemResult> sweep_problem(const Space& space, const Subject& subject, Executor& executor,
                                    const Options& options, const std::vector<StoredTrial>& stored, const Hooks& hooks);

}  // namespace pinch::sweep
