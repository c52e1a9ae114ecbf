#include "src/tactics/sm100.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "embedded/sm100_tactics.h"
#include "src/tactics/scan.h"

namespace pinch {
namespace {

// In the order of kModelNames.
enum class Model { kPr, kWaves, kFirst, kCluster };
constexpr std::array<std::string_view, 4> kModelNames{"pr", "waves", "first", "cluster"};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}

// CTAs that one output tile is counted as. The "cluster" model counts every CTA of the cluster's shape instead, which
// also doubles clusters of two independent tiles.
std::int64_t ctas_per_tile(const Sm100Tactic& tactic, Model model) {
  return model == Model::kCluster ? tactic.cluster[0] * tactic.cluster[1] : tactic.ctas_per_tile;
}

/// Whether `a` comes before `b` for every problem: the same rows a tile, no more CTAs for any n (r narrow tiles cover
/// what one wide tile covers, at no more CTAs), a wave that costs no more, and the smaller tie key.
bool dominates(const Sm100Family& family, std::uint32_t a, std::uint32_t b, Model model) {
  if (family.tie_key(a) >= family.tie_key(b)) return false;
  const Sm100Tactic &narrow = family.tactic(a), &wide = family.tactic(b);
  return narrow.tile_m == wide.tile_m && wide.tile_n % narrow.tile_n == 0 &&
         wide.tile_n / narrow.tile_n * ctas_per_tile(narrow, model) <= ctas_per_tile(wide, model);
}

}  // namespace

std::string to_string(const Sm100Tactic& tactic) {
  return fmt::format("{}x{}x{}-c{}x{}-r{}", tactic.tile_n, tactic.tile_m, tactic.tile_k, tactic.cluster[0],
                     tactic.cluster[1], tactic.raster_along_m ? 'm' : 'n');
}

Sm100Family::Sm100Family(Sm100Table table) : table_(std::move(table)) {
  const auto count = static_cast<std::uint32_t>(table_.tactics.size());
  for (const Sm100Tactic& tactic : table_.tactics) names_.push_back(pinch::to_string(tactic));
  for (const Model model : {Model::kPr, Model::kWaves, Model::kFirst, Model::kCluster}) {
    auto& kept = contenders_.emplace_back();
    for (std::uint32_t index = 0; index < count; ++index) {
      bool dominated = model == Model::kFirst && index > 0;
      for (std::uint32_t other = 0; other < count && !dominated && model != Model::kFirst; ++other) {
        dominated = dominates(*this, other, index, model);
      }
      if (!dominated) kept.push_back(index);
    }
  }
}

Knobs Sm100Family::knobs(std::size_t index) const {
  const Sm100Tactic& t = tactic(index);
  return {{"tile_n", t.tile_n},
          {"tile_m", t.tile_m},
          {"tile_k", t.tile_k},
          {"cluster", t.cluster},
          {"raster_along_m", t.raster_along_m}};
}

std::optional<std::string> Sm100Family::illegal(std::size_t /*index*/, const GemmProblem& problem,
                                                const Resources& /*resources*/) const {
  if (problem.k % table_.k_multiple != 0) {
    return fmt::format("k {} is not a multiple of {}", problem.k, table_.k_multiple);
  }
  if (problem.n % table_.n_multiple != 0) {
    return fmt::format("n {} is not a multiple of {}", problem.n, table_.n_multiple);
  }
  return std::nullopt;
}

std::span<const std::string_view> Sm100Family::models() const {
  return kModelNames;
}

Result<Estimate> Sm100Family::estimate(std::string_view model_name, std::size_t index, const GemmProblem& problem,
                                       const Resources& resources) const {
  PINCH_ASSIGN(known, find_model(*this, model_name));
  const auto model = static_cast<Model>(std::find(kModelNames.begin(), kModelNames.end(), known) - kModelNames.begin());
  if (resources.sm_count < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("sm_count is {}; the sm100 models count waves over the device's multiprocessors: give how "
                             "many, as in --sms 148",
                             resources.sm_count),
                 "sm_count"};
  }
  const Sm100Tactic& t = tactic(index);
  const std::int64_t ctas = ceil_div(problem.n, t.tile_n) * ctas_per_tile(t, model) * ceil_div(problem.m, t.tile_m);
  const std::int64_t waves = ceil_div(ctas, resources.sm_count);
  switch (model) {
    case Model::kFirst:
      return Estimate{static_cast<double>(index), "index", ctas, waves};
    case Model::kWaves:
      return Estimate{static_cast<double>(waves), "waves", ctas, waves};
    case Model::kPr:
    case Model::kCluster:
      break;
  }
  const std::int64_t half_bytes = t.tile_n * table_.half_bytes_n + t.tile_m * table_.half_bytes_m;
  return Estimate{static_cast<double>(waves) * static_cast<double>(half_bytes), "half_bytes", ctas, waves};
}

std::uint64_t Sm100Family::tie_key(std::size_t index) const {
  return index + (tactic(index).raster_along_m ? size() : 0);
}

Result<std::optional<RankedTactic>> Sm100Family::cheapest(std::string_view model, const GemmProblem& problem,
                                                          const Resources& resources) const {
  return cheapest_of(*this, contenders(model), model, problem, resources);
}

std::span<const std::uint32_t> Sm100Family::contenders(std::string_view model) const {
  const auto place = std::find(kModelNames.begin(), kModelNames.end(), model);
  if (place == kModelNames.end()) return {};
  return contenders_[static_cast<std::size_t>(place - kModelNames.begin())];
}

const Sm100Family& sm100_family() {
  // The text is part of the build and a test parses it: a failure here is a broken build, and value() stops the
  // program.
  static const Sm100Family family(parse_sm100_table(embedded::sm100_tactics).value());
  return family;
}

}  // namespace pinch
