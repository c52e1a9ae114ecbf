#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/gemm_bf16_fp4/traced/traced.h"
#include "tests/support/temp_folder.h"
#include "workbench/ladder/gemm_inputs.h"
#include "workbench/ladder/gemm_target.h"
#include "workbench/trace/analysis.h"
#include "workbench/trace/gemm.h"

namespace pinch::trace {
namespace {

using pinch::detail::TracedGemm;

constexpr std::int64_t kN = 160, kK = 384;

Fp4Matrix weights() {
  auto made = ladder::random_weights(Fp4Format::kNvfp4, kN, kK, 3);
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

TEST(TracedGemm, EveryInstanceGivesTheSameBits) {
  const Fp4Matrix b = weights();
  for (const char* tactic : {"stream.scalar.4x16.along_m.all", "panel.scalar.4x16.k256.along_m.all"}) {
    constexpr std::int64_t kM = 37;
    auto gemm = TracedGemm::create(b.view(), kM, {tactic, 2, OutputType::kF32});
    ASSERT_TRUE(gemm.ok()) << gemm.error().message();
    EXPECT_EQ(gemm->tactic(), tactic);
    const std::vector<Bf16> a = ladder::random_activations(kM * kK, 5);
    std::vector<float> untraced(kM * kN), traced(kM * kN);
    gemm->run(Level::kOff, a.data(), untraced.data());
    for (const Level level : {Level::kCoarse, Level::kDetailed}) {
      std::fill(traced.begin(), traced.end(), -1.0F);
      gemm->run(level, a.data(), traced.data());
      EXPECT_EQ(traced, untraced);
    }
  }
}

TEST(TraceGemm, CountsEveryStepOfThePanelPath) {
  const TempFolder folder;
  const Fp4Matrix b = weights();
  GemmRequest request;
  request.m = 8;
  request.options = {"panel.scalar.4x16.k256.along_m.all", 1, OutputType::kBf16};
  request.rounds = 1;
  request.level = Level::kDetailed;
  const auto traced = trace_gemm(b.view(), request, folder.path());
  ASSERT_TRUE(traced.ok()) << traced.error().message();
  EXPECT_EQ(traced->cost.times[2].ns.size(), 1U);
  EXPECT_TRUE(traced->cost.inflation(Level::kCoarse).has_value());
  const auto file = TraceFile::open(traced->path);
  ASSERT_TRUE(file.ok());
  const auto report = analyse(*file);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->lost_events, 0U);
  EXPECT_EQ(report->unfinished_tracks, 0U);
  // A call: 10 blocks of channels, two panels of k each, two row tiles.
  const std::uint64_t calls = report->role("pack")->steps;
  EXPECT_GE(calls, 2U);
  EXPECT_EQ(report->role("decode")->steps, calls * 20);
  EXPECT_EQ(report->role("multiply")->steps, calls * 40);
  EXPECT_EQ(report->role("store")->steps, calls * 20);
  EXPECT_EQ(report->role("stream")->steps, 0U);
  EXPECT_EQ(report->matrix.role, "multiply");
}

TEST(TraceGemm, KernelsWithMarksAreNotRanked) {
  EXPECT_EQ(gemm_trace_level(), 0);
  EXPECT_TRUE(ladder::check_rankable(0).ok());
  const auto refused = ladder::check_rankable(1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIllegal);
  EXPECT_THAT(refused.error().text, testing::HasSubstr("instrumented"));
}

}  // namespace
}  // namespace pinch::trace
