// What is said of a loop beside its bounds, and the machine models.
#include <gmock/gmock.h>

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tests/unit/sass_support.h"
#include "workbench/sass/report_text.h"

namespace pinch::sass {
namespace {

using test::kNext;
using test::Line;
using test::loop_of;
using test::pipe;
using test::program_of;
using test::report_of;
using testing::HasSubstr;

TEST(SassInterleaving, CountsRunsOfTwoUnits) {
  const Program program = program_of("kernels.sm_90a.cubin");
  AnalysisOptions options;
  options.pairs = {{"MUFU", "F2FP"}, {"MUFU.EX2", "FADD"}, {"xu", "tensor"}};
  const LoopReport loop = report_of(program, "softmax_loop", options).loops.at(0);
  EXPECT_EQ(loop.interleavings[0].first_count, 4);
  EXPECT_EQ(loop.interleavings[0].second_count, 2);
  EXPECT_EQ(loop.interleavings[0].transitions, 1);
  EXPECT_EQ(loop.interleavings[0].longest_run, 4);
  EXPECT_EQ(loop.interleavings[2].second_count, 0);
  EXPECT_EQ(loop.interleavings[2].transitions, 0);
}

TEST(SassLocalMemory, TellsSpillsFromArrays) {
  struct Expected {
    const char* file;
    int spill_loads, spill_stores;  // LDL and STL of forced_spill, counted in the text with grep
  };
  for (const auto& [file, loads, stores] :
       {Expected{"kernels.sm_80.cubin", 93, 88}, Expected{"kernels.sm_90a.cubin", 94, 88},
        Expected{"kernels.sm_100a.cubin", 96, 89}, Expected{"kernels.sm_103a.cubin", 96, 89},
        Expected{"kernels.sm_90a.nvdisasm.txt", 94, 88}, Expected{"kernels.sm_103a.nvdisasm.txt", 96, 89}}) {
    const Program program = program_of(file);
    const LocalMemory spill = report_of(program, "forced_spill").local,
                      array = report_of(program, "dynamic_array").local;
    EXPECT_EQ(spill.spill_loads, loads) << file;
    EXPECT_EQ(spill.spill_stores, stores) << file;
    EXPECT_EQ(spill.array_loads + spill.array_stores, 0) << file;
    EXPECT_EQ(array.spill_loads + array.spill_stores, 0) << file;
    EXPECT_EQ(array.array_loads, 9) << file;  // eight of 16 bytes and the indexed one
    EXPECT_EQ(array.array_stores, 9) << file;
    EXPECT_EQ(report_of(program, "softmax_loop").local.accesses.size(), 0u);
  }
}

TEST(SassLoads, DistanceIsFromLoadToFirstUseRoundTheLoop) {
  const Program program = loop_of({{kNext, "LDS R0, [R9]"},
                                   {kNext, "LDG.E.64 R2, desc[UR4][R6.64]"},
                                   {kNext, "FADD R8, R0, R8"},  // two behind its load
                                   {kNext, "FADD R4, R3, R5"},  // two behind: the upper half of 64 bits
                                   {kNext, "FADD R14, R20, R21"},
                                   {kNext, "LDS R20, [R10]"}});  // read in the next iteration, six behind
  const LoadDistance loads = report_of(program, "loop").loops.at(0).loads.value();
  EXPECT_EQ(loads.loads, 3);
  EXPECT_EQ(loads.shortest, 2);
  EXPECT_NEAR(loads.mean, (2 + 2 + 6) / 3.0, 1e-9);
}

TEST(SassUnroll, IsTheCommonFactorOfWhatRepeats) {
  std::vector<Line> body;
  for (int i = 0; i < 4; ++i) {
    body.push_back({kNext, fmt::format("LDS R{}, [R9]", i)});
    body.push_back({kNext, fmt::format("MUFU.EX2 R{}, R{}", 10 + i, i)});
    body.push_back({kNext, fmt::format("MUFU.EX2 R{}, R{}", 20 + i, i)});
  }
  EXPECT_EQ(report_of(loop_of(body), "loop").loops.at(0).unroll, 4);
  body.push_back({kNext, "MUFU.LG2 R30, R31"});
  EXPECT_EQ(report_of(loop_of(body), "loop").loops.at(0).unroll, 1);
}

TEST(SassReuse, CountsTheOperandsThatStayInTheCache) {
  const Control both{.stall = 1, .keeps_warp = true, .reuse = 3}, one{.stall = 1, .keeps_warp = true, .reuse = 4};
  EXPECT_EQ(report_of(loop_of({{both, "FFMA R0, R1.reuse, R2.reuse, R3"}, {one, "FFMA R4, R1, R2, R3.reuse"}}), "loop")
                .loops.at(0)
                .reused,
            3);
}

TEST(SassTable, IndentsEightLevelsAndThenNamesTheDepth) {
  constexpr int kLoops = 12;
  std::string text = "\t.target\tsm_90a\n\t.section\t.text.k,\"ax\"\n";
  int offset = 0;
  const auto add = [&](const std::string& instruction) {
    text += fmt::format("  /*{:04x}*/  {} ;\n", offset, instruction);
    offset += kInstructionBytes;
  };
  for (int l = 0; l < kLoops; ++l) {
    text += fmt::format(".L_x_{}:\n", l);
    add("FADD R1, R2, R3");
  }
  for (int l = kLoops; l-- > 0;) add(fmt::format("@P0 BRA `(.L_x_{})", l));
  add("EXIT");
  const Program program = test::from_text(text);
  const std::string printed = table(report_of(program, "k"), {});
  EXPECT_THAT(printed, HasSubstr("\n  loop 0x0-0x180: 24 instructions"));
  EXPECT_THAT(printed, HasSubstr("\n" + std::string(2 + 2 * 7, ' ') + "loop 0x70-0x110: 10 instructions"));
  EXPECT_THAT(printed, HasSubstr("\n" + std::string(2 + 2 * 7, ' ') + "loop 0xb0-0xd0 at depth 12: 2 instructions"));
}

TEST(SassMachine, ModelsNameASourceForEveryNumber) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_90"})
    EXPECT_TRUE(Machine::of(arch).ok()) << arch;
  const auto unknown = Machine::of("sm_70");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message(), HasSubstr("sm_80 sm_90a sm_100a sm_103a"));
  const auto parse = [](const std::string& row) {
    return Machine::parse(
        R"({"schema":"pinch-gpu-rates/1","name":"x","sources":{"s":{"measured":true}},"scheduler":{"policy":{"value":"greedy"},"taken_branch":{"value":1,"unit":"cycles","from":"s"},)"
        R"("drain":{"value":1,"unit":"cycles","from":"s"},"queue":{"value":0,"unit":"cycles","from":"s"}},"instructions":[)" +
            row + "]}",
        "planted");
  };
  EXPECT_TRUE(parse(R"({"match":"FFMA","uses":{"fma":1},"from":"s"})").ok());
  EXPECT_FALSE(parse(R"({"match":"FFMA","uses":{"fma":1},"from":"nowhere"})").ok());
  EXPECT_FALSE(parse(R"({"match":"FFMA","uses":{"fma":1}})").ok());
  EXPECT_FALSE(parse(R"({"match":"FFMA","uses":{"fma":-1},"from":"s"})").ok());
  const auto pipe_typo = parse(R"({"match":"FFMA","uses":{"fam":1},"from":"s"})");
  ASSERT_FALSE(pipe_typo.ok());
  EXPECT_THAT(pipe_typo.error().message(), HasSubstr("unknown pipe 'fam'"));
  EXPECT_FALSE(parse(R"({"match":"FFMA","uses":{},"from":"s"},{"match":"FFMA","uses":{},"from":"s"})").ok());
}

TEST(SassMachine, FilesSayHowEveryNumberWasMade) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a", "sm_103a"}) {
    const auto model =
        nlohmann::json::parse(*test::read_all(fmt::format("{}/data/machines/{}.json", PINCH_SOURCE_DIR, arch)));
    for (const auto& [name, source] : model.at("sources").items()) {
      EXPECT_GT(source.at("method").get<std::string>().size(), 40u) << arch << " " << name;
      EXPECT_EQ(source.at("measured").get<bool>(), source.contains("device")) << arch << " " << name;
    }
    for (const auto& [name, number] : model.at("scheduler").items())
      EXPECT_TRUE(model.at("sources").contains(number.at("from"))) << arch << " " << name;
    for (const auto& row : model.at("instructions"))
      EXPECT_TRUE(model.at("sources").contains(row.at("from"))) << arch << " " << row.dump();
    for (const char* number : {"uses", "latency"}) EXPECT_TRUE(model.at("units").contains(number)) << arch;
  }
}

TEST(SassMachine, TellsWhatWasMeasuredFromWhatWasNot) {
  // FFMA was timed on an H200; what a branch takes of its pipe and memory latencies were not, nor anything on sm_100a.
  const test::Line add{kNext, "FFMA R0, R1, R2, R3"}, load{kNext, "LDG.E R4, desc[UR4][R6.64]"};
  const Program hopper = program_of("kernels.sm_90a.cubin"), blackwell = program_of("kernels.sm_100a.cubin");
  EXPECT_EQ(report_of(loop_of({add, add}), "loop").loops.at(0).uncalibrated, 1);
  EXPECT_EQ(report_of(loop_of({add, load, load}), "loop").loops.at(0).uncalibrated, 3);
  const KernelReport no_loop = report_of(hopper, "poly_unrolled"), assumed = report_of(blackwell, "hmma_loop");
  EXPECT_TRUE(no_loop.calibrated);
  EXPECT_THAT(table(no_loop, {}), testing::Not(HasSubstr("uncalibrated")));
  EXPECT_FALSE(assumed.calibrated);
  EXPECT_EQ(assumed.loops.at(0).uncalibrated, assumed.loops.at(0).instructions);
  EXPECT_THAT(table(assumed, {}), HasSubstr("(sm_100a, uncalibrated)"));
}

TEST(SassMachine, MatchesWholeModifiersAndScalesByWidth) {
  const auto machine = Machine::of("sm_90a").value();
  const auto cost = [&](const char* mnemonic) {
    Instruction instruction;
    instruction.mnemonic = mnemonic;
    return machine->cost(instruction);
  };
  EXPECT_EQ(cost("LDS").uses[static_cast<int>(Pipe::kLsu)], 4);
  EXPECT_EQ(cost("LDS.U.128").uses[static_cast<int>(Pipe::kLsu)], 16);
  EXPECT_EQ(cost("HGMMA.64x256x16.F32.BF16").uses[static_cast<int>(Pipe::kTensor)], 128);
  EXPECT_EQ(cost("HGMMA.64x8x16.F32").uses[static_cast<int>(Pipe::kTensor)], 4);
  EXPECT_FALSE(cost("FFMAX").listed);
  EXPECT_EQ(cost("FFMAX").uses[0], 1);
}

}  // namespace
}  // namespace pinch::sass
