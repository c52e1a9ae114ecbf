// Tactic families: full, legal sets of launch knobs, ranked by cost models without running anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch {

/// What the launch may use: a family reads the fields that concern it.
struct Resources {
  int sm_count = 0;  ///< streaming multiprocessors (GPU families)
  int threads = 0;   ///< worker threads (CPU families)

  friend bool operator==(const Resources&, const Resources&) = default;
};

/// A knob and its value, for tables and JSON; the order is the family's.
using KnobValue = std::variant<std::int64_t, bool, std::string>;
using Knobs = std::vector<std::pair<std::string_view, KnobValue>>;

/// What a cost model says of one tactic. `cost` ranks (smaller is better); `unit` says whether it is a time.
struct Estimate {
  double cost = 0;
  std::string_view unit;  ///< "ns" where the model predicts time, else what is counted ("half_bytes", "waves", "index")
  std::int64_t ctas = 0;  ///< work items launched
  std::int64_t waves = 0;  ///< rounds of them over the units that run them
};

/// A family of tactics in a fixed order. An index names a tactic inside one build; the string is the key everywhere
/// else.
class TacticFamily {
 public:
  virtual ~TacticFamily() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
  [[nodiscard]] virtual std::string to_string(std::size_t index) const = 0;
  [[nodiscard]] virtual Knobs knobs(std::size_t index) const = 0;

  /// The reason, by name, why this tactic is refused for the problem; nothing where it is legal.
  [[nodiscard]] virtual std::optional<std::string> illegal(std::size_t index, const GemmProblem& problem,
                                                           const Resources& resources) const = 0;

  /// Names of the cost models, the default one first.
  [[nodiscard]] virtual std::span<const std::string_view> models() const = 0;

  /// Cost of a legal tactic. Errors: unknown model (the names are offered), missing resource.
  [[nodiscard]] virtual Result<Estimate> estimate(std::string_view model, std::size_t index, const GemmProblem& problem,
                                                  const Resources& resources) const = 0;

  /// Order between tactics of equal cost: the smaller key wins. The default is the index.
  [[nodiscard]] virtual std::uint64_t tie_key(std::size_t index) const { return index; }
};

/// Index of the tactic with this string. Errors: kNotFound, offering the nearest names.
Result<std::size_t> parse_tactic(const TacticFamily& family, std::string_view text);

struct RankedTactic {
  std::size_t index = 0;
  Estimate estimate;
};

/// Every legal tactic, cheapest first, ties by tie_key. Errors: kIllegal with the common reason where none is legal;
/// kInvalidArgument for a shape with a size below 1 or one whose products overflow.
Result<std::vector<RankedTactic>> rank_tactics(const TacticFamily& family, const GemmProblem& problem,
                                               const Resources& resources, std::string_view model = {});

/// The tactic used with no tuning: the first of rank_tactics. A repeated problem costs a lookup (bench/default_tactic).
Result<RankedTactic> default_tactic(const TacticFamily& family, const GemmProblem& problem, const Resources& resources,
                                    std::string_view model = {});

/// The families of this build by name ("cpu", "sm100"), for tools and tests.
std::span<const TacticFamily* const> tactic_families();
Result<const TacticFamily*> find_tactic_family(std::string_view name);

}  // namespace pinch
