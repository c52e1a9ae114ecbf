#include "kernels/attention/sm90/tactics.h"

#include <algorithm>
#include <array>
#include <vector>

namespace pinch::attention::sm90 {

namespace {

#define PINCH_ATTENTION_TILE(set, dim, qk, pv, ...) \
  ListedTile{std::string_view(#set) == "core", Kind{dim, QkType::qk, PvType::pv}, Tile{__VA_ARGS__}},
constexpr std::array kListed{
#include "kernels/attention/sm90/tiles.inc"
};
#undef PINCH_ATTENTION_TILE

// A threshold of 8 saves 2% and lets the largest P of a row be no longer exactly 1: its rounding to bf16 then makes the
// error at sigma 3 and 6 more than twice that of the other CPU and GPU tactics (decision 0093).
constexpr int kThreshold = 0;

std::vector<Tactic> list_tactics() {
  std::vector<Tactic> all;
  for (std::size_t i = 0; i < kListed.size(); ++i) {
    const Tile& tile = kListed[i].tile;
    const auto same = [&](const ListedTile& listed) { return listed.tile == tile; };
    if (std::any_of(kListed.begin(), kListed.begin() + static_cast<std::ptrdiff_t>(i), same)) continue;
    for (const Schedule schedule : {Schedule::kDynamic, Schedule::kStatic}) {
      const Tactic tactic{tile, kThreshold, schedule, 0};
      const auto legal = [&](const ListedTile& listed) { return same(listed) && illegal(listed.kind, tactic).empty(); };
      if (std::any_of(kListed.begin(), kListed.end(), legal)) all.push_back(tactic);
    }
  }
  return all;
}

}  // namespace

std::span<const ListedTile> listed_tiles() {
  return kListed;
}

std::span<const Tactic> tactics() {
  static const std::vector<Tactic> all = list_tactics();
  return all;
}

std::string_view illegal_listed(const Tactic& tactic, const AttentionProblem& problem, const DeviceFacts& device) {
  if (const auto why = illegal(tactic, problem, device); !why.empty()) return why;
  const Kind kind = kind_of(problem);
  const bool listed = std::any_of(kListed.begin(), kListed.end(),
                                  [&](const ListedTile& row) { return row.kind == kind && row.tile == tactic.tile; });
  return listed ? std::string_view() : "no kernel of this dim, qk and pv has these knobs";
}

}  // namespace pinch::attention::sm90
