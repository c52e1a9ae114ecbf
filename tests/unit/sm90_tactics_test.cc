// The sm90 family without a GPU: how the list is made, what is refused, and names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

#include "kernels/gemm_bf16_fp4/sm90/family.h"
#include "kernels/gemm_bf16_fp4/sm90/tactics.h"
#include "pinch/families.h"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr Resources kH200{.sm_count = 132};

std::optional<Tactic> parse_any(const std::string& text) {
  StreamTactic stream;
  if (parse(text.c_str(), &stream)) return stream;
  if (const auto wgmma = parse_wgmma_tactic(text)) return *wgmma;
  return std::nullopt;
}

// The rows of a list as CMake takes them (sm90/CMakeLists.txt): "set, knobs".
std::vector<std::string> rows_for_cmake(const std::string& list, const std::string& macro) {
  std::ifstream file(PINCH_SOURCE_DIR "/kernels/gemm_bf16_fp4/sm90/" + list);
  const std::regex row(macro + R"(\(((core|full), .*)\)$)");
  std::vector<std::string> rows;
  std::smatch found;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_search(line, found, row)) rows.push_back(found[1]);
  }
  return rows;
}

std::string row_of(const WgmmaTile& t, bool core) {
  std::ostringstream row;
  row << (core ? "core" : "full") << ", .tile_n = " << t.tile_n << ", .tile_m = " << t.tile_m
      << ", .tile_k = " << t.tile_k << ", .stages = " << t.stages << ", .consumers = " << t.consumers
      << ", .cluster_n = " << t.cluster_n << ", .cluster_k = " << t.cluster_k << ", .group = " << t.group;
  return row.str();
}

std::string row_of(const StreamInstance& i, bool core) {
  std::ostringstream row;
  row << (core ? "core" : "full") << ", .m_blocks = " << i.m_blocks << ", .row_tiles = " << i.row_tiles
      << ", .in_flight = " << i.in_flight << ", .k_warps = " << i.k_warps << ", .warps_per_sm = " << i.warps_per_sm;
  return row.str();
}

std::string row_of(const Tactic& tactic) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) return row_of(wgmma->tile, in_core(tactic));
  return row_of(instance_of(std::get<StreamTactic>(tactic)), in_core(tactic));
}

// What differs between the kernels that CMake compiles and those that the tactics need; empty where nothing does.
std::string differences(std::vector<std::string> compiled, std::span<const Tactic> listed) {
  std::set<std::string> needed;
  for (const Tactic& tactic : listed) needed.insert(row_of(tactic));
  std::string text;
  for (const std::string& row : compiled) {
    if (std::count(compiled.begin(), compiled.end(), row) > 1) text += "compiled twice: " + row + "\n";
    if (!needed.contains(row)) text += "compiled and unlisted: " + row + "\n";
  }
  for (const std::string& row : needed) {
    if (std::count(compiled.begin(), compiled.end(), row) == 0) text += "listed and not compiled: " + row + "\n";
  }
  return text;
}

std::vector<std::string> compiled_rows() {
  auto rows = rows_for_cmake("wgmma_tiles.inc", "PINCH_WGMMA_TILE");
  for (auto& row : rows_for_cmake("stream/instances.inc", "PINCH_STREAM_INSTANCE")) rows.push_back(std::move(row));
  return rows;
}

TEST(Sm90Tactics, AreBetween40And200AndDiffer) {
  std::set<std::string> names;
  for (const Tactic& tactic : tactics()) names.insert(to_string(tactic));
  EXPECT_EQ(names.size(), tactics().size());
  EXPECT_GE(tactics().size(), 40u);
  EXPECT_LE(tactics().size(), 200u);
}

TEST(Sm90Tactics, AreThoseOfTheCompiledKernels) {
  EXPECT_EQ(differences(compiled_rows(), tactics()), "");
}

TEST(Sm90Tactics, CheckSeesAKernelTooManyTwiceAndTooFew) {
  auto rows = compiled_rows();
  rows.push_back(row_of(WgmmaTile{.tile_m = 48}, false));
  EXPECT_THAT(differences(rows, tactics()), StartsWith("compiled and unlisted"));
  rows.back() = rows.front();
  EXPECT_THAT(differences(rows, tactics()), StartsWith("compiled twice"));
  rows = compiled_rows();
  rows.erase(rows.begin());
  EXPECT_THAT(differences(rows, tactics()), StartsWith("listed and not compiled"));
}

TEST(Sm90Tactics, ParseInvertsToString) {
  for (const Tactic& tactic : tactics()) EXPECT_EQ(parse_any(to_string(tactic)), tactic) << to_string(tactic);
  EXPECT_FALSE(parse_any("wgmma/n128/m256"));
  EXPECT_FALSE(parse_any(to_string(tactics().front()) + "/"));
}

TEST(Sm90Legality, EveryTacticIsLegalForSomeProblem) {
  for (const Tactic& tactic : tactics()) {
    bool legal = false;
    for (const int m : {1, 2048}) legal = legal || illegal(tactic, {m, 4096, 1024}, sm90_device(132)).empty();
    EXPECT_TRUE(legal) << to_string(tactic);
  }
}

TEST(Sm90Legality, EveryProblemOfLegalSizesHasALegalTactic) {
  for (const int m : {1, 3, 17, 33, 512, 8192}) {
    for (const int n : {8, 1000, 20000, 151936}) {
      for (const int k : {32, 320, 28672}) {
        for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
          EXPECT_TRUE(default_tactic(sm90_tactic_family(), {m, n, k, format}, kH200).ok()) << m << " " << n << " " << k;
        }
      }
    }
  }
}

TEST(Sm90Legality, RefusesALaunchThatHasAnEarlierName) {
  const WgmmaTile tile{.tile_n = 128, .tile_m = 64, .tile_k = 128, .stages = 7, .group = 4};
  const Device device = sm90_device(132);
  const auto why = [&](int split, int raster, WgmmaProblem problem) {
    return std::string(illegal(Tactic(WgmmaTactic{tile, split, raster}), problem, device));
  };
  EXPECT_THAT(why(1, 4, {64, 4096, 4096}), HasSubstr("raster_m 1 does the same"));
  EXPECT_EQ(why(1, 4, {65, 4096, 4096}), "");
  EXPECT_THAT(why(kStreamK, 1, {64, 132 * 128, 4096}), HasSubstr("split_k 1 does the same"));
  EXPECT_EQ(why(kStreamK, 1, {64, 131 * 128, 4096}), "");
  EXPECT_THAT(why(4, 1, {64, 4096, 384}), HasSubstr("more parts than k has iterations"));
  EXPECT_EQ(why(4, 1, {64, 4096, 512}), "");
}

TEST(Sm90Legality, NamesTheRuleOfEachStreamRefusal) {
  const StreamTactic tactic{};
  const StreamDevice device = sm90_device(132).stream;
  const auto why = [&](StreamTactic t, StreamProblem problem) {
    const char* text = illegal(t, problem, device);
    return std::string(text == nullptr ? "" : text);
  };
  EXPECT_EQ(why(tactic, {8, 4096, 4096}), "");
  EXPECT_THAT(why(tactic, {0, 4096, 4096}), HasSubstr("m is less"));
  EXPECT_THAT(why(tactic, {9, 4096, 4096}), HasSubstr("m is larger"));
  EXPECT_THAT(why(tactic, {8, 4100, 4096}), HasSubstr("n is not"));
  EXPECT_THAT(why(tactic, {8, 4096, 4112}), HasSubstr("k is not"));
  EXPECT_THAT(why(tactic, {8, 4096, 28672}), HasSubstr("shared memory"));
  EXPECT_THAT(why(tactic, {1, 4096, 2147483616}), HasSubstr("shared memory"));
  EXPECT_THAT(why(tactic, {1, 2147483640, 32}), HasSubstr("n is larger"));
  EXPECT_THAT(why(tactic, {1, 1 << 30, 1 << 16}), HasSubstr("pieces"));
  StreamTactic split = tactic;
  split.split_k = 2;
  EXPECT_THAT(why(split, {1, 4096, 64}), HasSubstr("split_k"));
  EXPECT_THAT(why({.m_blocks = 4, .row_tiles = 4, .warps = 30, .k_warps = 2, .balance = 1}, {1, 4096, 64}),
              HasSubstr("flags"));
  EXPECT_THAT(std::string(illegal(split, StreamProblem{1, 4096, 128}, sm90_device(1).stream)), HasSubstr("no cluster"));
  EXPECT_THAT(why({.m_blocks = 3}, {1, 4096, 64}), HasSubstr("m_blocks"));
}

TEST(Sm90Family, IsRegisteredAndAnswersWhatNoTacticCanRun) {
  const auto family = find_tactic_family("sm90");
  ASSERT_TRUE(family.ok());
  EXPECT_EQ((*family)->size(), tactics().size());
  const auto refused = [&](GemmProblem problem) { return default_tactic(**family, problem, kH200).error().message(); };
  EXPECT_EQ(refused({1, 4100, 4096}), "n 4100 is not a multiple of 8");
  EXPECT_EQ(refused({1, 4096, 4112}), "k 4112 is not a multiple of 32");
  EXPECT_THAT(refused({std::int64_t{1} << 31, 8, 32}), HasSubstr("larger than 2147483647"));
  EXPECT_THAT(default_tactic(**family, {1, 8, 32}, {.sm_count = 0}).error().message(), HasSubstr("sm_count is 0"));
}

TEST(Sm90Family, EstimatesNothingThatItCannotCount) {
  const TacticFamily& family = sm90_tactic_family();
  for (std::size_t index = 0; index < family.size(); ++index) {
    EXPECT_FALSE(family.estimate("pinch", index, {1, 12, 32}, kH200).ok());
    EXPECT_FALSE(family.estimate("pinch", index, {std::int64_t{1} << 32, 8, 32}, kH200).ok());
    const auto one = family.estimate("pinch", index, {1, 8, 128}, {.sm_count = 1});
    EXPECT_EQ(one.ok(), !family.illegal(index, {1, 8, 128}, {.sm_count = 1}).has_value());
    if (one) {
      EXPECT_GT(one->cost, 0) << family.to_string(index);
    }
  }
}

TEST(Sm90Family, DefaultIsTheFirstOfTheRankingUnderEveryModel) {
  const TacticFamily& family = sm90_tactic_family();
  for (const std::string_view model : family.models()) {
    for (const int m : {1, 16, 100, 2048}) {
      const GemmProblem problem{m, 6656, 4096};
      const auto ranked = rank_tactics(family, problem, kH200, model);
      ASSERT_TRUE(ranked.ok());
      EXPECT_EQ(default_tactic(family, problem, kH200, model)->index, ranked->front().index) << model << " " << m;
    }
  }
}

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90
