#include "workbench/measure/limits.h"

#include <gtest/gtest.h>

#include "workbench/ladder/roofline.h"

namespace pinch::measure {
namespace {

TEST(Limits, EveryInstructionSetOfThisMachineHasARateAndOthersHaveNone) {
  for (const CpuIsa isa : cpu_isas()) {
    const double gflops = multiply_add_gflops(isa, 1);
    if (isa <= cpu_machine().best_isa) {
      EXPECT_GT(gflops, 0.1) << to_string(isa);
    } else {
      EXPECT_EQ(gflops, 0) << to_string(isa);
    }
  }
}

TEST(Limits, WiderInstructionsDoMore) {
  if (cpu_machine().best_isa < CpuIsa::kAvx2) GTEST_SKIP() << "this machine has scalar instructions alone";
  EXPECT_GT(multiply_add_gflops(CpuIsa::kAvx2, 1), 2 * multiply_add_gflops(CpuIsa::kScalar, 1));
}

TEST(Limits, ReadsAreCountedInBytesPerNanosecond) {
  const double gbps = read_gbps(1 << 20, 1);
  EXPECT_GT(gbps, 0.5);
  EXPECT_LT(gbps, 2000);
  EXPECT_EQ(read_gbps(100, 1), 0) << "less than one pass of the loop";
}

TEST(Limits, TheColdSetIsThePolicysOrLargerThanTheCaches) {
  Policy policy;
  policy.cold_set_bytes = 12345;
  EXPECT_EQ(cold_set_bytes(policy), 12345U);
  const std::size_t chosen = cold_set_bytes(Policy{});
  EXPECT_LE(chosen, std::size_t{1} << 30);
  EXPECT_LE(chosen, available_memory_bytes());
}

}  // namespace
}  // namespace pinch::measure

namespace pinch::ladder {
namespace {

TEST(Roofline, LeastBytesCountWeightsScalesActivationsAndOutputOnce) {
  EXPECT_EQ(least_bytes({2, 64, 32, Fp4Format::kNvfp4, OutputType::kBf16}), 64 * 16 + 64 * 2 + 2 * 2 * 32 + 2 * 2 * 64);
  EXPECT_EQ(least_bytes({2, 64, 32, Fp4Format::kMxfp4, OutputType::kF32}), 64 * 16 + 64 * 1 + 2 * 2 * 32 + 4 * 2 * 64);
}

TEST(Roofline, TheSlowerOfComputingAndReadingBinds) {
  const GemmProblem problem{1, 1000, 1600, Fp4Format::kNvfp4, OutputType::kBf16};  // 3.2 Mflop, 905.2 kB
  const Roofline roofline{/*gflops=*/100, /*cold_gbps=*/10, /*warm_gbps=*/1000};
  EXPECT_DOUBLE_EQ(bound_ns(flops(problem), least_bytes(problem), roofline, measure::Protocol::kCold), 905200.0 / 10);
  EXPECT_DOUBLE_EQ(bound_ns(flops(problem), least_bytes(problem), roofline, measure::Protocol::kWarm), 3.2e6 / 100);
  EXPECT_EQ(bound_ns(flops(problem), least_bytes(problem), {}, measure::Protocol::kCold), 0)
      << "unknown rates bound nothing";
}

}  // namespace
}  // namespace pinch::ladder
