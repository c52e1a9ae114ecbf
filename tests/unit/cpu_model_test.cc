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

// A machine on which everything but the dot products is free, so that what the fit found does not blur a claim.
MachineModel dots_alone() {
  MachineModel machine = machine_models().front();
  for (MachineConstant& constant : machine.constants) {
    const bool kernel = constant.name.starts_with("gemm.stream.") || constant.name.starts_with("gemm.panel.");
    if (!kernel && constant.unit != "bytes") constant.value = constant.unit == "GB/s" ? 1e12 : 1e-12;
  }
  return machine;
}

MachineModel without(std::string_view prefix, MachineModel machine = machine_models().front()) {
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
  const auto like = CpuTimeModel::from(without("gemm.stream.scalar.4x16", dots_alone())).value();
  const double ns = like.estimate(index_of(name), {.m = 4, .n = 16, .k = 4096}, 1).cost;
  const std::string similar = "stream.scalar.1x16.along_m.all";
  EXPECT_NEAR(ns / like.estimate(index_of(similar), {.m = 1, .n = 16, .k = 4096}, 1).cost, 4, 1e-6);
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
  const auto model = CpuTimeModel::from(dots_alone()).value();
  const auto two_threads = [&](std::int64_t n) {
    return model.estimate(index_of(name), {.m = 1, .n = n, .k = 4096}, 2).cost;
  };
  EXPECT_NEAR(two_threads(48), 2 * two_threads(32), 1e-6 * two_threads(32));  // 3 blocks on 2 threads take 2 rounds
  EXPECT_NEAR(two_threads(64), two_threads(48), 1e-6 * two_threads(48));      // and the fourth is free
  const Estimate estimate = model.estimate(index_of(name), {.m = 1, .n = 48, .k = 64}, 2);
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
