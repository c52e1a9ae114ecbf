#include "workbench/ladder/gemm_subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace pinch::ladder {
namespace {

using measure::Protocol;
using measure::Verdict;

PreparedSet small_set(Fp4Format format, std::size_t cold_bytes = 100'000) {
  auto weights = random_weights(format, 96, 128, 1);
  EXPECT_TRUE(weights.ok());
  auto set = PreparedSet::create(std::move(weights).value(), cold_bytes);
  EXPECT_TRUE(set.ok());
  return std::move(set).value();
}

TEST(GemmInputs, GeneratedWeightsAreValidAndNotZero) {
  for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
    const auto weights = random_weights(format, 64, 256, 7);
    ASSERT_TRUE(weights.ok());
    EXPECT_TRUE(validate(weights->view()).ok());
    EXPECT_GT(std::set<std::uint8_t>(weights->codes.begin(), weights->codes.end()).size(), 200U);
    EXPECT_GT(std::set<std::uint8_t>(weights->scales.begin(), weights->scales.end()).size(), 4U);
  }
}

TEST(GemmInputs, OtherWeightsAreValidAndDifferInEveryCode) {
  const auto weights = random_weights(Fp4Format::kNvfp4, 3, 48, 7);
  const Fp4Matrix first = other_weights(*weights, 1);
  const Fp4Matrix second = other_weights(*weights, 2);
  EXPECT_TRUE(validate(first.view()).ok());
  EXPECT_NE(first.codes, weights->codes);
  EXPECT_NE(first.codes, second.codes);
  EXPECT_EQ(first.scales, weights->scales);
}

TEST(GemmInputs, TheColdSetHasAtLeastTheBytesAskedForAndTwoMembers) {
  EXPECT_GE(small_set(Fp4Format::kNvfp4, 100'000).cold_bytes(), 100'000U);
  EXPECT_EQ(small_set(Fp4Format::kNvfp4, 1).cold().size(), 2U);
  EXPECT_TRUE(small_set(Fp4Format::kNvfp4, 0).cold().empty());
}

TEST(GemmInputs, AProblemLargerThanTheMemoryIsRefused) {
  const auto fits = check_memory({1, 64, 64, Fp4Format::kNvfp4, OutputType::kBf16}, 0);
  EXPECT_TRUE(fits.ok());
  const auto large = check_memory({std::int64_t{1} << 40, 64, 64, Fp4Format::kNvfp4, OutputType::kBf16}, 0);
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(large.error().message(), testing::HasSubstr("GiB"));
}

TEST(GemmSubject, EveryLegalTacticIsRightAndRunsColdAndWarm) {
  for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
    const PreparedSet set = small_set(format);
    const auto subject = GemmSubject::create(set, 19, OutputType::kBf16, 1);
    ASSERT_TRUE(subject.ok()) << subject.error().message();
    const auto ranked = rank_tactics((*subject)->family(), (*subject)->problem(), (*subject)->resources());
    ASSERT_TRUE(ranked.ok());
    for (const RankedTactic& tactic : *ranked) {
      const Checked checked = (*subject)->check(tactic.index);
      ASSERT_EQ(checked.verdict, Verdict::kOk) << checked.why;
      EXPECT_GT(checked.call_ns, 0);
      const int more_than_the_set = static_cast<int>(set.cold().size()) + 2;
      for (const Protocol protocol : {Protocol::kCold, Protocol::kWarm}) {
        ASSERT_TRUE((*subject)->ready(tactic.index, protocol, more_than_the_set).ok());
        ASSERT_TRUE((*subject)->run(tactic.index, protocol, more_than_the_set).ok());
      }
    }
  }
}

TEST(GemmSubject, AnIllegalTacticHasThatVerdictAndTheReason) {
  const PreparedSet set = small_set(Fp4Format::kNvfp4);
  const auto subject = GemmSubject::create(set, 1, OutputType::kBf16, 1);
  ASSERT_TRUE(subject.ok());
  const TacticFamily& family = (*subject)->family();
  for (std::size_t i = 0; i < family.size(); ++i) {
    const auto reason = family.illegal(i, (*subject)->problem(), (*subject)->resources());
    if (!reason) continue;
    const Checked checked = (*subject)->check(i);
    EXPECT_EQ(checked.verdict, Verdict::kIllegal);
    EXPECT_THAT(checked.why, testing::HasSubstr(*reason));
    return;
  }
  FAIL() << "every tactic is legal";
}

}  // namespace
}  // namespace pinch::ladder
