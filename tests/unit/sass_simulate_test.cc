// Simulation and bounds: loops made for one rule each, and loops that a device ran.
#include <gmock/gmock.h>

#include <fmt/core.h>

#include <algorithm>

#include "bench/sass_corpus/measurements.h"
#include "tests/unit/sass_support.h"

namespace pinch::sass {
namespace {

using test::kNext;
using test::Line;
using test::loop_of;
using test::pipe;
using test::program_of;
using test::report_of;

TEST(SassSimulator, IssuesOneInstructionACycle) {
  const Program program = loop_of(std::vector<Line>(31, {kNext, "FFMA R0, R1, R2, R3"}));
  AnalysisOptions options;
  options.warps = 8;
  const LoopReport loop = report_of(program, "loop", options).loops.at(0);
  EXPECT_EQ(loop.bound_cycles, 32);
  EXPECT_EQ(loop.bound_by, Pipe::kIssue);
  EXPECT_NEAR(loop.simulated_cycles.value(), 8 * 32, 2);
  EXPECT_NEAR(loop.fair_cycles.value(), 8 * 32, 2);
}

TEST(SassSimulator, WaitsForStallCounts) {
  const Control four{.stall = 4, .keeps_warp = false};
  const Program program = loop_of(std::vector<Line>(10, {four, "FFMA R0, R0, R2, R3"}));
  const LoopReport one = report_of(program, "loop").loops.at(0);
  EXPECT_EQ(one.stalls, (std::array<int, 16>{0, 1, 0, 0, 10}));
  EXPECT_NEAR(one.simulated_cycles.value(), 10 * 4 + 1 + 4, 0.5);  // the branch, and what a taken branch costs
  EXPECT_EQ(one.dependency_cycles, 40);
  AnalysisOptions options;
  options.warps = 4;
  EXPECT_NEAR(report_of(program, "loop", options).loops.at(0).simulated_cycles.value(), 10 * 4 + 5,
              3);  // four warps fill the stalls
}

TEST(SassSimulator, WaitsForScoreboards) {
  // Each MUFU (17 cycles) sets scoreboard 2, and the FADD behind it waits.
  const std::vector<Line> pair = {{{.stall = 1, .keeps_warp = true, .write_barrier = 2}, "MUFU.EX2 R0, R1"},
                                  {{.stall = 4, .wait_mask = 1 << 2}, "FADD R1, R0, R2"}};
  const LoopReport loop = report_of(loop_of(pair), "loop").loops.at(0);
  EXPECT_NEAR(loop.simulated_cycles.value(), 17 + 4 + 1 + 4, 0.5);
  EXPECT_EQ(loop.dependency_cycles, 17 + 4);
}

TEST(SassSimulator, KeepsABusyPipeBusy) {
  const Program program = loop_of(std::vector<Line>(16, {kNext, "LOP3.LUT R0, R1, R2, R3, 0x6a, !PT"}));
  AnalysisOptions options;
  options.warps = 4;
  const LoopReport loop = report_of(program, "loop", options).loops.at(0);
  EXPECT_EQ(loop.bound_by, Pipe::kAlu);
  EXPECT_NEAR(loop.simulated_cycles.value(), 4 * 32, 8);
  EXPECT_GE(loop.simulated_cycles.value(), 4 * loop.bound_cycles);
}

// Two products of 128 cycles, each with a wait that leaves `left` groups in flight and 60 LOP3 of 2 cycles behind it.
Program overlapped_products(int left) {
  std::vector<Line> body;
  for (const char* accumulators : {"R24", "R152"}) {
    body.push_back({kNext, fmt::format("HGMMA.64x256x16.F32.BF16 {0}, gdesc[UR4], {0}, gsb0", accumulators)});
    body.push_back({kNext, fmt::format("WARPGROUP.DEPBAR.LE gsb0, 0x{:x}", left)});
    body.insert(body.end(), 60, {{.stall = 2, .keeps_warp = true}, "LOP3.LUT R4, R5, R6, R7, 0x6a, !PT"});
  }
  return loop_of(body);
}

TEST(SassSimulator, WaitsForTheGroupsThatAWaitDoesNotLeaveInFlight) {
  // Alone: 128 cycles of tensor core and 32 of latency, then 1 + 60 x 2 of ordinary work, twice, and the branch.
  EXPECT_NEAR(report_of(overlapped_products(0), "loop").loops.at(0).simulated_cycles.value(), 2 * (160 + 121) + 1 + 4,
              0.5);
  // One in flight: a product starts when the one two before it, an iteration ago, is done and the work behind its wait.
  EXPECT_NEAR(report_of(overlapped_products(1), "loop").loops.at(0).simulated_cycles.value(), 160 + 121 + 1 + 4, 0.5);
  // Two in flight keep the tensor core busy.
  EXPECT_NEAR(report_of(overlapped_products(2), "loop").loops.at(0).simulated_cycles.value(), 2 * 128, 0.5);
}

TEST(SassSimulator, RunsLongEnoughForGroupsOfManyIterationsBefore) {
  const Program program = loop_of(
      {{kNext, "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, gsb0"}, {kNext, "WARPGROUP.DEPBAR.LE gsb0, 0x7"}});
  const Kernel& kernel = program.kernels.at(0);
  KnownMnemonics known;
  const auto machine = Machine::of("sm_90a").value();
  const LoopCode code = loop_code(kernel, analyse_flow(kernel).loops.at(0).path, *machine, known);
  EXPECT_NEAR(simulated_cycles(code, *machine, 1, Policy::kGreedy), 128, 0.5);
}

TEST(SassSimulator, TellsCompiledWaitsApartOnBothRoads) {
  // groups.cu: two products of 8 cycles an iteration; only the N of wgmma.wait_group differs.
  std::map<std::string, std::vector<double>> cycles;
  for (const char* file : {"groups.sm_90a.nvdisasm.txt", "groups.sm_90a.cubin"}) {
    const Program program = program_of(file);
    for (const char* name : {"groups_wait0", "groups_wait1", "groups_wait7"})
      cycles[name].push_back(report_of(program, name).loops.at(0).simulated_cycles.value());
  }
  for (const auto& [name, roads] : cycles) EXPECT_EQ(roads[0], roads[1]) << name;
  const double wait0 = cycles["groups_wait0"][0], wait1 = cycles["groups_wait1"][0], wait7 = cycles["groups_wait7"][0];
  EXPECT_GE(wait0, 2 * (8 + 32));  // each is waited for with its latency
  EXPECT_GE(wait1, 8 + 32);        // two latencies in three products
  EXPECT_LT(wait1, 2 * (8 + 32));
  EXPECT_LE(wait7, wait1);
}

TEST(SassDependency, FollowsRegistersRoundTheLoop) {
  // R0 -> R4 -> R0 through two instructions of 4 cycles; R8 stands alone.
  const Program program =
      loop_of({{kNext, "FFMA R4, R0, R2, R3"}, {kNext, "FADD R0, R4, R2"}, {kNext, "FADD R8, R2, R3"}});
  EXPECT_EQ(report_of(program, "loop").loops.at(0).dependency_cycles, 8);
  const Program free = loop_of({{kNext, "FFMA R4, R1, R2, R3"}, {kNext, "FADD R0, R4, R2"}});
  EXPECT_EQ(report_of(free, "loop").loops.at(0).dependency_cycles, 0);
}

TEST(SassDependency, FollowsAccumulatorsThroughTheTensorCoreNotThroughItsLatency) {
  // Four wgmma of 8 cycles that add to R24; the FADD behind them waits for all of them and the 32 cycles of latency.
  const std::vector<Line> products(4, {kNext, "HGMMA.64x16x16.F32.BF16 R24, gdesc[UR4], R24, gsb0"});
  EXPECT_EQ(report_of(loop_of(products), "loop").loops.at(0).dependency_cycles, 4 * 8);
  std::vector<Line> read = products;
  read.push_back({kNext, "FADD R24, R24, R2"});
  EXPECT_EQ(report_of(loop_of(read), "loop").loops.at(0).dependency_cycles, 4 * 8 + 32 + 4);
  // A product whose A operand is made of the accumulators of the one before waits for it.
  const std::vector<Line> chained = {{kNext, "HGMMA.64x16x16.F32.BF16 R24, R4, gdesc[UR4], R24, gsb0"},
                                     {kNext, "F2FP.BF16.F32.PACK_AB R4, R25, R24"}};
  EXPECT_EQ(report_of(loop_of(chained), "loop").loops.at(0).dependency_cycles, 8 + 32 + 4);
}

// The whole run of a loop against what its bounds allow; what the estimate of an iteration stands on.
void expect_no_contradiction(const Program& program, int& judged) {
  for (const Kernel& kernel : program.kernels) {
    const auto machine = Machine::of(kernel.arch).value();
    KnownMnemonics known;
    for (const int warps : {1, 2, 3, 8}) {
      AnalysisOptions options;
      options.warps = warps;
      const KernelReport report = analyse_kernel(kernel, nullptr, options).value();
      for (std::size_t l = 0; l < report.loops.size(); ++l) {
        const LoopReport& loop = report.loops[l];
        if (!loop.simulated_cycles) continue;
        ++judged;
        const LoopCode code = loop_code(kernel, report.flow.loops[l].path, *machine, known);
        constexpr int kIterations = 12;
        for (const Policy policy : {Policy::kGreedy, Policy::kFair}) {
          const double run = total_cycles(code, *machine, warps, policy, kIterations);
          ASSERT_GE(run, kIterations * warps * loop.bound_cycles) << kernel.name << " W " << warps;
          ASSERT_GE(run, (kIterations - 1) * loop.dependency_cycles.value_or(0)) << kernel.name << " W " << warps;
        }
        ASSERT_GE(loop.slack().value_or(1), 1) << kernel.name;
      }
    }
  }
}

TEST(SassBounds, AreNeverAboveTheSimulation) {
  int judged = 0;
  for (const char* text : {"kernels.sm_80.cuobjdump.txt", "kernels.sm_90a.nvdisasm.txt", "kernels.sm_100a.nvdisasm.txt",
                           "kernels.sm_103a.nvdisasm.txt"}) {
    expect_no_contradiction(program_of(text), judged);
  }
  for (const char* arch : {"80", "90a", "100a", "103a"})
    expect_no_contradiction(program_of(fmt::format("heldout.sm_{}.cubin", arch)), judged);
  expect_no_contradiction(test::program_at(std::string(PINCH_SOURCE_DIR) + "/data/sass/h200_loops.cubin"), judged);
  EXPECT_GT(judged, 1000);
}

// Measured loops whose bound is more than 2% above what the device took, with rates `factor` times what the model says.
int bounds_above_measurement(double factor, int& rows) {
  const std::string folder = std::string(PINCH_SOURCE_DIR) + "/data/sass/";
  const Program program = test::program_at(folder + "h200_loops.cubin");
  int above = 0;
  for (const auto& [name, by_warps] : corpus::read_measurements((folder + "h200_loops.csv").c_str())) {
    std::map<int, double> bounds;  // by the sub-partitions that run
    for (const int sub_partitions : {1, 2, 4}) {
      AnalysisOptions options;
      options.sub_partitions = sub_partitions;
      const KernelReport report = report_of(program, name, options);
      for (const LoopReport& loop : report.loops)
        bounds[sub_partitions] = std::max(bounds[sub_partitions], loop.bound_cycles);
    }
    for (const auto& [warps, cycles] : by_warps) {
      const int sub_partitions = std::min(warps, kSubPartitions);
      const double bound = factor * bounds.at(sub_partitions) * warps / sub_partitions;
      ++rows;
      above += bound > 1.02 * cycles;
    }
  }
  return above;
}

TEST(SassBounds, AreAtMostTwoPercentAboveEveryMeasuredLoop) {
  int rows = 0;
  EXPECT_EQ(bounds_above_measurement(1, rows), 0);
  EXPECT_EQ(rows, 1336);  // every row of the file: 226 loops at 1 to 32 warps
  EXPECT_GT(bounds_above_measurement(1.05, rows), 100) << "rates that are 5% too slow are seen";
}

TEST(SassBounds, CountWhatSubPartitionsShareByHowManyRun) {
  const Program program = loop_of({{kNext, "LDS.128 R0, [R8]"}, {kNext, "FADD R1, R2, R3"}});
  AnalysisOptions options;
  EXPECT_EQ(pipe(report_of(program, "loop", options).loops.at(0), Pipe::kLsu), 16);
  options.sub_partitions = 1;
  EXPECT_EQ(pipe(report_of(program, "loop", options).loops.at(0), Pipe::kLsu), 4);
  EXPECT_EQ(pipe(report_of(program, "loop", options).loops.at(0), Pipe::kFma), 1);
}

TEST(SassSimulator, DoesNotRunWithoutControlWords) {
  const Program program = program_of("kernels.sm_100a.nohex.txt");
  const LoopReport loop = report_of(program, "softmax_loop").loops.at(0);
  EXPECT_EQ(loop.bound_cycles, 32);
  EXPECT_FALSE(loop.simulated_cycles || loop.greedy_cycles || loop.fair_cycles || loop.slack());
}

}  // namespace
}  // namespace pinch::sass
