// The sm100 family: the published tactic table of the SM100 dense bf16 x FP4 kernel, as data, with the default rule
// proposed for it and the alternatives that were measured and rejected. It predicts an order, not a time.
#pragma once

#include <string_view>
#include <vector>

#include "pinch/tactics.h"

namespace pinch {

/// tile_n runs over output channels, tile_m over rows of the activations.
struct Sm100Tactic {
  std::int64_t tile_n = 0, tile_m = 0, tile_k = 0;
  KnobPair cluster{1, 1};  ///< CTAs along n, along m
  bool raster_along_m = false;
  std::int64_t ctas_per_tile = 1;  ///< 2 for the cooperative two-CTA tile

  friend bool operator==(const Sm100Tactic&, const Sm100Tactic&) = default;
};

/// "128x8x256-c1x1-rm": tile_n x tile_m x tile_k, cluster, raster along m (rm) or n (rn).
std::string to_string(const Sm100Tactic& tactic);

struct Sm100Table {
  std::vector<Sm100Tactic> tactics;
  std::int64_t k_multiple = 1, n_multiple = 1;      ///< legality, the same for every tactic
  std::int64_t half_bytes_n = 0, half_bytes_m = 0;  ///< traffic a K element, in half-bytes a unit of tile_n, tile_m
};

/// Reads the table from JSON (schema "pinch-tactics/1"). Errors: kCorrupt, naming the field.
Result<Sm100Table> parse_sm100_table(std::string_view json);

class Sm100Family final : public TacticFamily {
 public:
  /// The table must hold a tactic.
  explicit Sm100Family(Sm100Table table);

  [[nodiscard]] std::string_view name() const override { return "sm100"; }
  [[nodiscard]] std::size_t size() const override { return table_.tactics.size(); }
  [[nodiscard]] std::string to_string(std::size_t index) const override { return names_[index]; }
  [[nodiscard]] Knobs knobs(std::size_t index) const override;
  [[nodiscard]] std::optional<std::string> illegal(std::size_t index, const GemmProblem& problem,
                                                   const Resources& resources) const override;
  [[nodiscard]] std::span<const std::string_view> models() const override;
  [[nodiscard]] Result<Estimate> estimate(std::string_view model, std::size_t index, const GemmProblem& problem,
                                          const Resources& resources) const override;
  [[nodiscard]] std::uint64_t tie_key(std::size_t index) const override;
  /// Among contenders(model) only.
  [[nodiscard]] Result<std::optional<RankedTactic>> cheapest(std::string_view model, const GemmProblem& problem,
                                                             const Resources& resources) const override;

  /// The tactics that no other one dominates under this model: only they can come first, whatever the problem.
  [[nodiscard]] std::span<const std::uint32_t> contenders(std::string_view model) const;

  [[nodiscard]] const Sm100Tactic& tactic(std::size_t index) const { return table_.tactics[index]; }

 private:
  Sm100Table table_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::uint32_t>> contenders_;  // [model]
};

/// The family of the embedded table.
const Sm100Family& sm100_family();

}  // namespace pinch
