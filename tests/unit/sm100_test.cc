// The published table and rule, pinned: every pick and every change that the facts about them state.
#include "src/tactics/sm100.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "embedded/sm100_tactics.h"
#include "src/tactics/scan.h"

namespace pinch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::array<std::int64_t, 6> kRows{1, 8, 32, 128, 512, 2048};
constexpr std::array<std::int64_t, 3> kChannels{4096, 6656, 19968};

RankedTactic pick(std::int64_t m, std::int64_t n, int sm_count, std::string_view model = "pr") {
  const auto result = default_tactic(sm100_family(), {.m = m, .n = n, .k = 4096}, {.sm_count = sm_count}, model);
  EXPECT_TRUE(result.ok());
  return result.value();
}

std::string tile(std::size_t index) {
  const Sm100Tactic& t = sm100_family().tactic(index);
  return fmt::format("{}x{}", t.tile_n, t.tile_m);
}

// "m,n:tile" of each of the 18 problems whose pick differs from the rule's at 148 multiprocessors.
std::vector<std::string> changes(int sm_count, std::string_view model) {
  std::vector<std::string> changed;
  for (const auto m : kRows) {
    for (const auto n : kChannels) {
      const auto index = pick(m, n, sm_count, model).index;
      if (index != pick(m, n, 148).index) changed.push_back(fmt::format("{},{}:{}", m, n, tile(index)));
    }
  }
  return changed;
}

TEST(Sm100Table, Holds30TacticsInThePublishedOrder) {
  const Sm100Family& family = sm100_family();
  ASSERT_EQ(family.size(), 30u);
  // Built here by the published loops, independently of the data.
  std::size_t index = 0;
  for (const std::int64_t tile_m : {8, 16, 32, 64, 128, 192}) {
    for (const auto& [tile_n, cluster_n] : {std::pair{128, 1}, std::pair{128, 2}, std::pair{256, 2}}) {
      if ((tile_n == 256 && tile_m == 8) || (tile_n == 128 && tile_m == 192)) continue;
      for (const bool raster_along_m : {true, false}) {
        const Sm100Tactic expected{tile_n, tile_m, 256, {cluster_n, 1}, raster_along_m, tile_n == 256 ? 2 : 1};
        EXPECT_EQ(family.tactic(index), expected) << index << " " << family.to_string(index);
        ++index;
      }
    }
  }
  EXPECT_EQ(index, 30u);
}

TEST(Sm100Table, NamesAreDistinctAndParseBack) {
  const Sm100Family& family = sm100_family();
  std::set<std::string> names;
  for (std::size_t index = 0; index < family.size(); ++index) {
    names.insert(family.to_string(index));
    EXPECT_EQ(parse_tactic(family, family.to_string(index)).value(), index);
  }
  EXPECT_EQ(names.size(), 30u);
  EXPECT_EQ(family.to_string(0), "128x8x256-c1x1-rm");
  EXPECT_EQ(family.to_string(29), "256x192x256-c2x1-rn");
}

TEST(Sm100Table, UnknownNameOffersTheNearest) {
  const auto result = parse_tactic(sm100_family(), "128x8x256-c1x1-mn");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(result.error().text, HasSubstr("did you mean 128x8x256-c1x1-rn, 128x8x256-c1x1-rm or"));
}

TEST(Sm100Rule, MakesThe18PublishedPicksAt148) {
  const std::array<std::array<std::size_t, 3>, 6> expected{
      {{1, 1, 1}, {1, 1, 1}, {1, 5, 11}, {11, 17, 17}, {23, 17, 23}, {23, 23, 23}}};
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    for (std::size_t column = 0; column < kChannels.size(); ++column) {
      const auto index = pick(kRows[row], kChannels[column], 148).index;
      EXPECT_EQ(index, expected[row][column]) << "m " << kRows[row] << " n " << kChannels[column];
      const Sm100Tactic& t = sm100_family().tactic(index);
      EXPECT_EQ(t.cluster, (KnobPair{1, 1}));
      EXPECT_FALSE(t.raster_along_m);
    }
  }
  EXPECT_EQ(tile(1), "128x8");
  EXPECT_EQ(tile(5), "128x16");
  EXPECT_EQ(tile(11), "128x32");
  EXPECT_EQ(tile(17), "128x64");
  EXPECT_EQ(tile(23), "128x128");
}

TEST(Sm100Rule, ChangesWithTheMultiprocessorsAsPublished) {
  EXPECT_THAT(changes(152, "pr"), ElementsAre());
  EXPECT_THAT(changes(132, "pr"), ElementsAre("512,6656:128x128"));
  EXPECT_THAT(changes(160, "pr"), ElementsAre("128,19968:128x128", "512,6656:256x192"));
}

TEST(Sm100Rule, WavesAloneDiffersOn6Of18) {
  EXPECT_THAT(changes(148, "waves"), ElementsAre("128,19968:128x128", "512,6656:128x128", "512,19968:256x192",
                                                 "2048,4096:256x192", "2048,6656:256x192", "2048,19968:256x192"));
  const RankedTactic waves = pick(2048, 4096, 148, "waves");
  EXPECT_EQ(waves.estimate.ctas, 352);
  EXPECT_EQ(waves.estimate.waves, 3);
  EXPECT_EQ(waves.estimate.cost, 3);
  const auto as_rule = sm100_family().estimate("pr", waves.index, {.m = 2048, .n = 4096, .k = 4096}, {.sm_count = 148});
  EXPECT_EQ(as_rule->cost, 3072);
  const RankedTactic rule = pick(2048, 4096, 148);
  EXPECT_EQ(rule.estimate.ctas, 512);
  EXPECT_EQ(rule.estimate.waves, 4);
  EXPECT_EQ(rule.estimate.cost, 2560);
  EXPECT_EQ(rule.estimate.unit, "half_bytes");
}

TEST(Sm100Rule, CountingByTheClusterChangesNoPick) {
  EXPECT_THAT(changes(148, "cluster"), ElementsAre());
  // It does change what it says of a cluster of two independent tiles.
  const GemmProblem problem{.m = 32, .n = 19968, .k = 4096};
  const std::size_t index = parse_tactic(sm100_family(), "128x32x256-c2x1-rn").value();
  EXPECT_EQ(sm100_family().estimate("cluster", index, problem, {.sm_count = 148})->ctas, 312);
  EXPECT_EQ(sm100_family().estimate("pr", index, problem, {.sm_count = 148})->ctas, 156);
}

TEST(Sm100Rule, FirstAlwaysTakesIndex0) {
  for (const auto m : kRows) {
    for (const auto n : kChannels) EXPECT_EQ(pick(m, n, 148, "first").index, 0u);
  }
}

TEST(Sm100Rule, TileDoesNotAlwaysGrowWithRows) {
  EXPECT_EQ(tile(pick(128, 4096, 148).index), "128x32");
  EXPECT_EQ(tile(pick(129, 4096, 148).index), "128x16");
}

TEST(Sm100Rule, TiesGoToRasterAlongNThenToTheEarlierRow) {
  const auto ranked = rank_tactics(sm100_family(), {.m = 1, .n = 4096, .k = 4096}, {.sm_count = 148});
  ASSERT_TRUE(ranked.ok());
  ASSERT_EQ(ranked->size(), 30u);
  std::vector<std::size_t> head;
  for (std::size_t i = 0; i < 4; ++i) head.push_back((*ranked)[i].index);
  EXPECT_THAT(head, ElementsAre(1, 3, 0, 2));  // 128x8: rn of both clusters, then rm of both
}

// Whether a family's default equals the full scan, over sizes around every edge of a tile and a wave. Counts the
// problems compared and those that differ.
std::pair<std::size_t, std::size_t> compare_with_scan(const TacticFamily& family) {
  std::vector<std::int64_t> rows, channels;
  for (std::int64_t m = 1; m <= 260; ++m) rows.push_back(m);
  for (const std::int64_t m : {383, 384, 385, 511, 512, 513, 768, 1000, 1536, 2047, 2048, 2049, 4096, 8191, 65536}) {
    rows.push_back(m);
  }
  for (std::int64_t n = 8; n <= 4096; n += 120) channels.push_back(n);
  for (const std::int64_t n : {128, 136, 256, 264, 6656, 18944, 18952, 19968, 37888, 151936}) channels.push_back(n);
  std::size_t compared = 0, differ = 0;
  for (const std::string_view model : family.models()) {
    for (const int sm_count : {1, 2, 84, 132, 148, 152, 160}) {
      for (const auto m : rows) {
        for (const auto n : channels) {
          const GemmProblem problem{.m = m, .n = n, .k = 4096};
          const auto scan = scan_for_cheapest(family, model, problem, {.sm_count = sm_count});
          const auto quick = default_tactic(family, problem, {.sm_count = sm_count}, model);
          differ += (*scan)->index != quick->index || (*scan)->estimate.cost != quick->estimate.cost;
          ++compared;
        }
      }
    }
  }
  return {compared, differ};
}

TEST(Sm100Contenders, EqualTheFullScanOverALargeGrid) {
  const auto [compared, differ] = compare_with_scan(sm100_family());
  EXPECT_GE(compared, 300'000u);
  EXPECT_EQ(differ, 0u);
}

TEST(Sm100Contenders, OfTheRuleAreTheOnly6TacticsItCanPick) {
  EXPECT_THAT(sm100_family().contenders("pr"), ElementsAre(1, 5, 11, 17, 23, 29));
  EXPECT_THAT(sm100_family().contenders("first"), ElementsAre(0));
}

// The comparison must notice a list of contenders that lost a tactic.
TEST(Sm100Contenders, ComparisonNoticesAMissingContender) {
  class Narrowed final : public TacticFamily {
   public:
    std::string_view name() const override { return "narrowed"; }
    std::size_t size() const override { return sm100_family().size(); }
    std::string to_string(std::size_t index) const override { return sm100_family().to_string(index); }
    Knobs knobs(std::size_t index) const override { return sm100_family().knobs(index); }
    std::optional<std::string> illegal(std::size_t, const GemmProblem&, const Resources&) const override { return {}; }
    std::span<const std::string_view> models() const override { return sm100_family().models(); }
    std::uint64_t tie_key(std::size_t index) const override { return sm100_family().tie_key(index); }
    Result<Estimate> estimate(std::string_view model, std::size_t index, const GemmProblem& problem,
                              const Resources& resources) const override {
      return sm100_family().estimate(model, index, problem, resources);
    }
    Result<std::optional<RankedTactic>> cheapest(std::string_view model, const GemmProblem& problem,
                                                 const Resources& resources) const override {
      constexpr std::array<std::uint32_t, 6> kWithout128x128{0, 1, 5, 11, 17, 29};
      return cheapest_of(*this, kWithout128x128, model, problem, resources);
    }
  };
  EXPECT_GT(compare_with_scan(Narrowed()).second, 0u);
}

TEST(Sm100Legality, NamesTheRule) {
  const auto refused = [](std::int64_t n, std::int64_t k) {
    const auto result = default_tactic(sm100_family(), {.m = 1, .n = n, .k = k}, {.sm_count = 148});
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kIllegal);
    return result.error().text;
  };
  EXPECT_EQ(refused(4096, 4112), "k 4112 is not a multiple of 32");
  EXPECT_EQ(refused(4100, 4096), "n 4100 is not a multiple of 8");
  EXPECT_TRUE(default_tactic(sm100_family(), {.m = 1, .n = 8, .k = 32}, {.sm_count = 148}).ok());
}

TEST(Sm100Estimate, RefusesNoMultiprocessorsAndUnknownModels) {
  const GemmProblem problem{.m = 1, .n = 4096, .k = 4096};
  const auto no_sms = default_tactic(sm100_family(), problem, {});
  EXPECT_EQ(no_sms.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(no_sms.error().message(), HasSubstr("sm_count"));
  const auto no_model = default_tactic(sm100_family(), problem, {.sm_count = 148}, "wave");
  EXPECT_EQ(no_model.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(no_model.error().text, HasSubstr("did you mean waves"));
}

TEST(Sm100Table, RefusesBrokenDataByField) {
  const auto broken = [](auto&& change) {
    auto document = nlohmann::json::parse(embedded::sm100_tactics);
    change(document);
    const auto result = parse_sm100_table(document.dump());
    EXPECT_FALSE(result.ok());
    EXPECT_TRUE(result.ok() || result.error().code == ErrorCode::kCorrupt);
    return result.ok() ? std::string() : result.error().message();
  };
  EXPECT_THAT(broken([](auto& d) { d["schema"] = "pinch-tactics/2"; }), HasSubstr("schema pinch-tactics/1"));
  EXPECT_THAT(broken([](auto& d) { d["tactics"][3].erase("tile_m"); }), HasSubstr("tile_m"));
  EXPECT_THAT(broken([](auto& d) { d["tactics"][3]["tile_n"] = -128; }), HasSubstr("tile_n is -128"));
  EXPECT_THAT(broken([](auto& d) { d["tactics"][3]["tile_n"] = 64; }), HasSubstr("64"));  // no CTA count for it
  EXPECT_THAT(broken([](auto& d) { d["tactics"][3]["cluster"] = {1}; }), HasSubstr("cluster is not a pair"));
  EXPECT_THAT(broken([](auto& d) { d["tactics"][3]["raster_along_m"] = 1; }), HasSubstr("boolean"));
  EXPECT_THAT(broken([](auto& d) { d["tactics"][3] = d["tactics"][2]; }), HasSubstr("listed twice"));
  EXPECT_THAT(broken([](auto& d) { d["tactics"].clear(); }), HasSubstr("empty"));
  EXPECT_THAT(parse_sm100_table("{").error().message(), HasSubstr("sm100 tactic table"));
}

}  // namespace
}  // namespace pinch
