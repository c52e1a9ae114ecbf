// What every family gets from the library: problem checks, ranking, the memo of the default.
#include "pinch/tactics.h"

#include <gmock/gmock.h>

#include <atomic>
#include <limits>
#include <memory>
#include <thread>

#include "pinch/families.h"
#include "src/tactics/default_memo.h"
#include "src/tactics/sm100.h"

namespace pinch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Three tactics; cost = base + index * slope, so that the cheapest is known. Counts the estimates it is asked for.
class Ladder final : public TacticFamily {
 public:
  Ladder(double base, double slope) : base_(base), slope_(slope) {}
  std::string_view name() const override { return "ladder"; }
  std::size_t size() const override { return 3; }
  std::string to_string(std::size_t index) const override { return "step" + std::to_string(index); }
  Knobs knobs(std::size_t) const override { return {}; }
  std::optional<std::string> illegal(std::size_t index, const GemmProblem& problem, const Resources&) const override {
    if (problem.k % 16 != 0) return "k is odd";
    if (problem.m > 1000) return "m too large for step" + std::to_string(index);
    if (index == 0 && problem.m > 100) return "m too large";
    return std::nullopt;
  }
  std::span<const std::string_view> models() const override { return kModels; }
  Result<Estimate> estimate(std::string_view, std::size_t index, const GemmProblem& problem,
                            const Resources&) const override {
    ++estimates;
    return Estimate{base_ + slope_ * static_cast<double>(index), "ns", problem.m, 1};
  }
  mutable std::atomic<int> estimates{0};

 private:
  static constexpr std::array<std::string_view, 1> kModels{"time"};
  double base_, slope_;
};

constexpr GemmProblem kProblem{.m = 4, .n = 64, .k = 64};

TEST(ValidateProblem, NamesTheSizeBelow1) {
  EXPECT_THAT(validate({.m = 0, .n = 8, .k = 32}).error().message(), HasSubstr("m is 0"));
  EXPECT_THAT(validate({.m = 1, .n = -8, .k = 32}).error().message(), HasSubstr("n is -8"));
  EXPECT_THAT(validate({.m = 1, .n = 8, .k = std::numeric_limits<std::int64_t>::min()}).error().message(),
              HasSubstr("k is -9223372036854775808"));
}

TEST(ValidateProblem, NamesTheProductThatOverflows) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  EXPECT_THAT(validate({.m = kLarge, .n = kLarge, .k = 32}).error().message(), HasSubstr("m*n"));
  EXPECT_THAT(validate({.m = kLarge, .n = 1, .k = kLarge}).error().message(), HasSubstr("m*k"));
  EXPECT_THAT(validate({.m = 1, .n = kLarge, .k = kLarge}).error().message(), HasSubstr("n*k"));
  EXPECT_TRUE(validate({.m = 1 << 20, .n = kLarge, .k = 1}).ok());
  EXPECT_FALSE(validate({.m = (1 << 20) + 1, .n = kLarge, .k = 1}).ok());
}

TEST(RankTactics, OrdersByCostAndLeavesIllegalOnesOut) {
  const Ladder falling(10, -1);
  const auto indices = [&](std::int64_t m) {
    std::vector<std::size_t> order;
    const auto ranked = rank_tactics(falling, {.m = m, .n = 64, .k = 64}, {});
    EXPECT_TRUE(ranked.ok());
    for (const auto& tactic : ranked.value()) order.push_back(tactic.index);
    return order;
  };
  EXPECT_THAT(indices(1), ElementsAre(2, 1, 0));
  EXPECT_THAT(indices(101), ElementsAre(2, 1));
}

TEST(RankTactics, NamesTheCommonReasonWhereNoneIsLegal) {
  const Ladder ladder(1, 1);
  const auto odd = rank_tactics(ladder, {.m = 1, .n = 64, .k = 15}, {});
  EXPECT_EQ(odd.error().code, ErrorCode::kIllegal);
  EXPECT_EQ(odd.error().text, "k is odd");
  const auto mixed = default_tactic(ladder, {.m = 1001, .n = 64, .k = 64}, {});
  EXPECT_EQ(mixed.error().code, ErrorCode::kIllegal);
  EXPECT_THAT(mixed.error().text, HasSubstr("none of the 3 tactics is legal; m too large for step0"));
}

TEST(DefaultTactic, RefusesSizesBelow1BeforeLegality) {
  EXPECT_EQ(default_tactic(Ladder(1, 1), {.m = 0, .n = 64, .k = 15}, {}).error().code, ErrorCode::kInvalidArgument);
}

TEST(DefaultTactic, AsksTheModelOnlyOnce) {
  const Ladder ladder(1, 1);
  EXPECT_EQ(default_tactic(ladder, kProblem, {})->index, 0u);
  const int asked = ladder.estimates;
  EXPECT_EQ(asked, 3);
  const auto again = default_tactic(ladder, kProblem, {}, "time");  // the default model by its name
  EXPECT_EQ(again->index, 0u);
  EXPECT_EQ(again->estimate.cost, 1);
  EXPECT_EQ(again->estimate.unit, "ns");
  EXPECT_EQ(again->estimate.ctas, 4);
  EXPECT_EQ(ladder.estimates, asked);
}

TEST(DefaultTactic, TellsProblemsApartInEveryField) {
  const Ladder ladder(1, 1);
  int expected = 0;
  for (const GemmProblem& problem :
       {kProblem, GemmProblem{.m = 5, .n = 64, .k = 64}, GemmProblem{.m = 4, .n = 65, .k = 64},
        GemmProblem{.m = 4, .n = 64, .k = 80}, GemmProblem{.m = 4, .n = 64, .k = 64, .format = Fp4Format::kMxfp4},
        GemmProblem{.m = 4, .n = 64, .k = 64, .output = OutputType::kF32}}) {
    ASSERT_TRUE(default_tactic(ladder, problem, {}).ok());
    EXPECT_EQ(ladder.estimates, expected += 3);
  }
  ASSERT_TRUE(default_tactic(ladder, kProblem, {.sm_count = 1}).ok());
  EXPECT_EQ(ladder.estimates, expected += 3);
  ASSERT_TRUE(default_tactic(ladder, kProblem, {.threads = 1}).ok());
  EXPECT_EQ(ladder.estimates, expected += 3);
}

// A family made where another one was must not inherit its answers.
TEST(DefaultTactic, DoesNotAnswerForAnotherFamilyAtTheSameAddress) {
  alignas(Ladder) std::array<std::byte, sizeof(Ladder)> room;
  auto* rising = std::construct_at(reinterpret_cast<Ladder*>(room.data()), 1, 1);
  EXPECT_EQ(default_tactic(*rising, kProblem, {})->index, 0u);
  std::destroy_at(rising);
  auto* falling = std::construct_at(reinterpret_cast<Ladder*>(room.data()), 10, -1);
  EXPECT_EQ(default_tactic(*falling, kProblem, {})->index, 2u);
  std::destroy_at(falling);
}

TEST(DefaultMemo, ForgetsTheOldestOfThreeProblemsInOneSet) {
  const Ladder ladder(1, 1);
  const auto memo = std::make_unique<DefaultMemo>();
  const auto key_of = [&](std::int64_t m) { return DefaultMemo::Key::of(ladder, 0, {.m = m, .n = 64, .k = 64}, {}); };
  std::vector<std::int64_t> rows{1};  // three problems of one set
  for (std::int64_t m = 2; rows.size() < 3; ++m) {
    if (key_of(m).set() == key_of(1).set()) rows.push_back(m);
  }
  const auto known = [&](std::int64_t m) { return memo->find(key_of(m)).has_value(); };
  memo->store(key_of(rows[0]), {.index = 1, .estimate = {}});
  EXPECT_FALSE(known(rows[1]));
  memo->store(key_of(rows[1]), {.index = 2, .estimate = {}});
  EXPECT_EQ(memo->find(key_of(rows[0]))->index, 1u);
  EXPECT_EQ(memo->find(key_of(rows[1]))->index, 2u);
  memo->store(key_of(rows[2]), {.index = 3, .estimate = {}});
  EXPECT_FALSE(known(rows[0]));
  EXPECT_TRUE(known(rows[1]));
  EXPECT_EQ(memo->find(key_of(rows[2]))->index, 3u);
}

TEST(DefaultMemo, SpreadsUsualShapesOverItsSets) {
  const Ladder ladder(1, 1);
  std::vector<int> uses(DefaultMemo::kSets);
  int keys = 0;
  for (const std::int64_t n : {4096, 6656, 8192, 16384, 19968}) {
    for (std::int64_t m = 1; m <= 128; ++m, ++keys) {
      ++uses[DefaultMemo::Key::of(ladder, 0, {.m = m, .n = n, .k = 4096}, {}).set()];
    }
  }
  // 640 keys thrown at random into 2048 sets use 550 of them on average, standard deviation 8.
  EXPECT_GE(std::count_if(uses.begin(), uses.end(), [](int count) { return count > 0; }), 550 - 4 * 8);
}

// Readers and writers on few slots: whatever a reader gets must be one writer's whole answer.
TEST(DefaultMemoThreads, NeverShowAHalfWrittenPick) {
  const Ladder ladder(1, 1);
  const auto memo = std::make_unique<DefaultMemo>();
  const auto key = DefaultMemo::Key::of(ladder, 0, kProblem, {});
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (std::int64_t writer = 1; writer <= 2; ++writer) {
    writers.emplace_back([&, writer] {
      for (std::int64_t i = writer; !stop; i += 2) {
        memo->store(key, {.index = static_cast<std::size_t>(i),
                          .estimate = {.cost = static_cast<double>(i), .unit = "ns", .ctas = i, .waves = i}});
      }
    });
  }
  std::int64_t seen = 0, torn = 0;
  for (int i = 0; i < 300'000 || (seen == 0 && i < 30'000'000); ++i) {
    const auto pick = memo->find(key);
    if (!pick) continue;
    ++seen;
    const auto index = static_cast<std::int64_t>(pick->index);
    torn += pick->estimate.cost != static_cast<double>(index) || pick->estimate.ctas != index ||
            pick->estimate.waves != index || pick->estimate.unit != "ns";
  }
  stop = true;
  for (auto& writer : writers) writer.join();
  EXPECT_GT(seen, 0);
  EXPECT_EQ(torn, 0);
}

TEST(DefaultTacticThreads, AgreeWithOneThread) {
  const Sm100Family& family = sm100_family();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        for (std::int64_t m = 1; m <= 256; ++m) {
          const GemmProblem problem{.m = m, .n = 4096, .k = 4096};
          const auto pick = default_tactic(family, problem, {.sm_count = 148});
          const auto ranked = rank_tactics(family, problem, {.sm_count = 148});
          wrong += pick->index != ranked->front().index;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(TacticFamilies, AreFoundByNameAndOfferedWhenMistyped) {
  ASSERT_TRUE(find_tactic_family("sm100").ok());
  EXPECT_EQ((*find_tactic_family("sm100"))->name(), "sm100");
  const auto unknown = find_tactic_family("sm10");
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().text, HasSubstr("sm100"));
}

}  // namespace
}  // namespace pinch
