// The time model of the cpu family: its constants, its shape, and its short cut against the full scan.
#include "kernels/gemm_bf16_fp4/model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "src/tactics/scan.h"

namespace pinch {
namespace {

using testing::HasSubstr;

std::size_t index_of(std::string_view name) {
  const auto index = parse_tactic(cpu_tactic_family(), name);
  EXPECT_TRUE(index.ok()) << name;
  return index.ok() ? *index : 0;
}

double predicted_ns(std::string_view name, const GemmProblem& problem, int threads = 1) {
  return machine_time_model().estimate(index_of(name), problem, threads).cost;
}

TEST(CpuConstants, OfEveryMachineModelAreReadable) {
  for (const MachineModel& machine : machine_models()) {
    const auto model = CpuTimeModel::from(machine);
    EXPECT_TRUE(model.ok()) << model.error().message();
  }
}

TEST(CpuConstants, AreNamedOnce) {
  std::set<std::string> names;
  for (const CpuConstant& constant : cpu_constants()) EXPECT_TRUE(names.insert(constant.name).second) << constant.name;
  EXPECT_GT(names.size(), cpu_kernels().size());
}

MachineModel without(std::string_view prefix) {
  MachineModel machine = machine_models().front();
  const auto starts = [&](const MachineConstant& c) { return c.name.starts_with(prefix); };
  EXPECT_GT(std::erase_if(machine.constants, starts), 0u) << prefix;
  return machine;
}

TEST(CpuConstants, RefuseAMachineModelThatLacksASharedOneOrEveryKernel) {
  const auto fork = CpuTimeModel::from(without("threads.fork"));
  ASSERT_FALSE(fork.ok());
  EXPECT_EQ(fork.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(fork.error().message(), HasSubstr("threads.fork"));
  MachineModel machine = without("gemm.stream.");
  std::erase_if(machine.constants, [](const MachineConstant& c) { return c.name.starts_with("gemm.panel."); });
  EXPECT_THAT(CpuTimeModel::from(machine).error().message(), HasSubstr("no constant of any kernel"));
}

TEST(CpuConstants, OfAnUnknownKernelAreThoseOfTheMostSimilar) {
  const std::string name = "stream.scalar.4x16.along_m.all";
  const GemmProblem problem{.m = 4, .n = 16, .k = 1 << 20};  // dots alone
  const auto like = CpuTimeModel::from(without("gemm.stream.scalar.4x16")).value();
  const double ns = like.estimate(index_of(name), problem, 1).cost;
  const double as_1x16 = predicted_ns("stream.scalar.1x16.along_m.all", {.m = 1, .n = 16, .k = 1 << 20});
  EXPECT_NEAR(ns / as_1x16, 4, 0.2);
}

TEST(CpuTactics, AreAtLeast40AtATypicalProblem) {
  for (const std::int64_t m : {1, 32, 512}) {
    const auto ranked = rank_tactics(cpu_tactic_family(), {.m = m, .n = 4096, .k = 4096}, {.threads = 2});
    ASSERT_TRUE(ranked.ok());
    EXPECT_GE(ranked->size(), 40u) << m;
  }
}

TEST(CpuTimeModel, PredictsNanosecondsThatGrowWithEachSize) {
  const GemmProblem problem{.m = 64, .n = 4096, .k = 4096};
  for (const char* name : {"stream.scalar.4x16.along_m.all", "panel.scalar.4x16.k256.along_m.all"}) {
    const double ns = predicted_ns(name, problem);
    EXPECT_GT(ns, 0);
    EXPECT_GT(predicted_ns(name, {.m = 128, .n = 4096, .k = 4096}), 1.5 * ns) << name;
    EXPECT_GT(predicted_ns(name, {.m = 64, .n = 8192, .k = 4096}), 1.5 * ns) << name;
    EXPECT_GT(predicted_ns(name, {.m = 64, .n = 4096, .k = 8192}), 1.5 * ns) << name;
  }
}

// 16 channels are one tile: a second thread has nothing to do. One more block and both work.
TEST(CpuTimeModel, CountsTheTailOfTheLastWave) {
  const std::string name = "stream.scalar.1x16.along_m.all";
  const auto two_threads = [&](std::int64_t n) { return predicted_ns(name, {.m = 1, .n = n, .k = 1 << 22}, 2); };
  EXPECT_GT(two_threads(48), 1.8 * two_threads(32));  // 3 blocks on 2 threads take 2 rounds
  EXPECT_LT(two_threads(64), 1.1 * two_threads(48));  // and the fourth is free
  const Estimate estimate = machine_time_model().estimate(index_of(name), {.m = 1, .n = 48, .k = 64}, 2);
  EXPECT_EQ(estimate.ctas, 3);
  EXPECT_EQ(estimate.waves, 2);
  EXPECT_EQ(estimate.unit, "ns");
}

TEST(CpuTimeModel, RefusesNoThreads) {
  const auto result = rank_tactics(cpu_tactic_family(), {.m = 1, .n = 64, .k = 64}, {.threads = 0});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(result.error().message(), HasSubstr("threads is 0"));
}

TEST(CpuTimeModel, FindsTheCheapestOfTheFullScanWithFewerEstimates) {
  const TacticFamily& family = cpu_tactic_family();
  std::size_t compared = 0;
  for (const int threads : {1, 2, 3, 8, 61}) {
    for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
      for (const std::int64_t m :
           {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 33, 64, 65, 96, 129, 255, 512, 1000, 2048, 5000}) {
        for (const std::int64_t n : {1, 8, 15, 16, 48, 64, 65, 200, 1000, 4096, 6656, 19968}) {
          for (const std::int64_t k : {32, 64, 288, 1024, 4096, 14336}) {
            const GemmProblem problem{.m = m, .n = n, .k = k, .format = format};
            const auto scan = scan_for_cheapest(family, "time", problem, {.threads = threads});
            const auto quick = family.cheapest("time", problem, {.threads = threads});
            ASSERT_TRUE(scan.ok() && quick.ok() && scan.value() && quick.value());
            ASSERT_EQ((*scan)->index, (*quick)->index) << m << " " << n << " " << k << " " << threads;
            ASSERT_EQ((*scan)->estimate.cost, (*quick)->estimate.cost);
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_GE(compared, 15'000u);
}

TEST(CpuTimeModel, FindsNothingWhereNothingIsLegal) {
  const auto none = cpu_tactic_family().cheapest("time", {.m = 1, .n = 64, .k = 40}, {.threads = 2});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none.value());
}

}  // namespace
}  // namespace pinch
