// Tactic families: full, legal sets of launch knobs, ranked by cost models without running anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "pinch/attention_problem.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch {

/// What the launch may use: a family reads the fields that concern it.
struct Resources {
  int sm_count = 0;  ///< streaming multiprocessors (GPU families)
  int threads = 0;   ///< worker threads (CPU families)

  friend bool operator==(const Resources&, const Resources&) = default;
};

/// Two counts that belong together, such as a cluster's shape.
using KnobPair = std::array<std::int64_t, 2>;

/// A knob and its value, for tables and JSON; the order is the family's.
using KnobValue = std::variant<std::int64_t, bool, std::string, KnobPair>;
using Knobs = std::vector<std::pair<std::string_view, KnobValue>>;

/// What a cost model says of one tactic. `cost` ranks (smaller is better); `unit` says whether it is a time.
struct Estimate {
  double cost = 0;
  std::string_view unit;  ///< "ns" where the model predicts time, else what is counted ("half_bytes", "waves", "index")
  std::int64_t ctas = 0;  ///< work items launched
  std::int64_t waves = 0;  ///< rounds of them over the units that run them
};

struct RankedTactic {
  std::size_t index = 0;
  Estimate estimate;
};

/// Tactics in a fixed order, whatever problem they are for. An index names a tactic inside one build; the string is the
/// key everywhere else.
class TacticList {
 public:
  TacticList();
  TacticList(const TacticList&) = delete;
  TacticList& operator=(const TacticList&) = delete;
  virtual ~TacticList() = default;

  /// Distinct for every family object ever made, so that a memo never answers for another one at the same address.
  [[nodiscard]] std::uint64_t identity() const { return identity_; }

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
  [[nodiscard]] virtual std::string to_string(std::size_t index) const = 0;
  [[nodiscard]] virtual Knobs knobs(std::size_t index) const = 0;

  /// Multiprocessors of the device that the family was measured on, for callers that name none; 0 where there is none.
  [[nodiscard]] virtual int usual_sm_count() const { return 0; }

  /// Names of the cost models, the default one first.
  [[nodiscard]] virtual std::span<const std::string_view> models() const = 0;

  /// What times of this model rest on: "measured" constants of this machine, or "uncalibrated" ones of another, which
  /// rank but promise no time. Empty where the model predicts no time.
  [[nodiscard]] virtual std::string_view calibration(std::string_view /*model*/) const { return {}; }

  /// Order between tactics of equal cost: the smaller key wins. The default is the index.
  [[nodiscard]] virtual std::uint64_t tie_key(std::size_t index) const { return index; }

 private:
  friend Result<std::size_t> parse_tactic(const TacticList& family, std::string_view text);

  std::uint64_t identity_;
  mutable std::once_flag named_;  // parse_tactic fills by_name_ when first asked
  mutable std::unordered_map<std::string, std::size_t> by_name_;
};

/// The tactics for one kind of problem: GemmProblem or AttentionProblem.
template <class Problem>
class TacticFamilyFor : public TacticList {
 public:
  /// The reason, by name, why this tactic is refused for the problem; nothing where it is legal.
  [[nodiscard]] virtual std::optional<std::string> illegal(std::size_t index, const Problem& problem,
                                                           const Resources& resources) const = 0;

  /// Cost of a legal tactic. Errors: unknown model (the names are offered), missing resource.
  [[nodiscard]] virtual Result<Estimate> estimate(std::string_view model, std::size_t index, const Problem& problem,
                                                  const Resources& resources) const = 0;

  /// The tactic that rank_tactics puts first; nothing where none is legal. `model` is one of models(), the problem is
  /// valid. Here by looking at every tactic; a family that finds it with less work proves that it is the same one: by
  /// its bounds, and by a test against the scan (src/tactics/scan.h) over many problems. Errors: as estimate.
  [[nodiscard]] virtual Result<std::optional<RankedTactic>> cheapest(std::string_view model, const Problem& problem,
                                                                     const Resources& resources) const;
};
using TacticFamily = TacticFamilyFor<GemmProblem>;
using AttentionTacticFamily = TacticFamilyFor<AttentionProblem>;

/// The model of this name; the family's first where the name is empty. Errors: kInvalidArgument, offering the names.
Result<std::string_view> find_model(const TacticList& family, std::string_view name);

/// Index of the tactic with this string, by a hash table. Errors: kNotFound, offering the nearest names.
Result<std::size_t> parse_tactic(const TacticList& family, std::string_view text);

/// Every legal tactic, cheapest first, ties by tie_key. Errors: kIllegal with the common reason where none is legal;
/// what validate(problem) refuses.
Result<std::vector<RankedTactic>> rank_tactics(const TacticFamily& family, const GemmProblem& problem,
                                               const Resources& resources, std::string_view model = {});
Result<std::vector<RankedTactic>> rank_tactics(const AttentionTacticFamily& family, const AttentionProblem& problem,
                                               const Resources& resources, std::string_view model = {});

/// The tactic used with no tuning: the first of rank_tactics, found without ranking. A repeated GEMM costs a lookup in
/// a memo that never blocks (measured by bench/default_tactic); attention, thousands of times longer, needs none. Safe
/// from any number of threads. Errors: as rank_tactics.
Result<RankedTactic> default_tactic(const TacticFamily& family, const GemmProblem& problem, const Resources& resources,
                                    std::string_view model = {});
Result<RankedTactic> default_tactic(const AttentionTacticFamily& family, const AttentionProblem& problem,
                                    const Resources& resources, std::string_view model = {});

}  // namespace pinch
