// Counts: kernels counted by hand, by both roads to mnemonics.
#include <gmock/gmock.h>

#include <fmt/core.h>

#include <algorithm>

#include "tests/unit/sass_support.h"
#include "workbench/sass/opcode_map.h"

namespace pinch::sass {
namespace {

using test::kernel_of;
using test::kNext;
using test::loop_of;
using test::pipe;
using test::program_of;
using test::report_of;

struct Counted {
  const char *file, *kernel;
  std::map<std::string, int> mix;  // counted by hand in the text of nvdisasm
  double bound;
  Pipe bound_by;
};

TEST(SassCounts, AgreeWithThoseMadeByHand) {
  const Counted counted[] = {
      {"kernels.sm_80.cubin",
       "softmax_loop",
       {{"MUFU", 4}, {"F2FP", 2}, {"FFMA", 4}, {"FADD", 4}, {"LDG", 1}, {"STG", 1}},
       32,
       Pipe::kXu},
      {"kernels.sm_90a.cubin",
       "softmax_loop",
       {{"MUFU", 4}, {"F2FP", 2}, {"FFMA", 4}, {"FADD", 4}, {"LDG", 1}, {"STG", 1}},
       32,
       Pipe::kXu},
      {"kernels.sm_100a.cubin",
       "softmax_loop",
       {{"MUFU", 4}, {"F2FP", 2}, {"FFMA", 4}, {"FADD", 4}, {"LDG", 1}, {"STG", 1}},
       32,
       Pipe::kXu},
      {"kernels.sm_80.cubin",
       "dequant_loop",
       {{"PRMT", 5}, {"LOP3", 4}, {"HFMA2", 4}, {"SHF", 4}, {"LDG", 1}, {"STG", 1}, {"IMAD", 10}, {"ULDC", 3}},
       39,
       Pipe::kIssue},
      {"kernels.sm_90a.cubin",
       "dequant_loop",
       {{"PRMT", 4}, {"LOP3", 4}, {"HFMA2", 4}, {"SHF", 4}, {"LDG", 1}, {"STG", 1}},
       36,
       Pipe::kAlu},
      {"kernels.sm_100a.cubin",
       "dequant_loop",
       {{"PRMT", 4}, {"LOP3", 4}, {"HFMA2", 4}, {"SHF", 4}, {"LDG", 1}, {"STG", 1}, {"IMAD", 8}, {"IADD3", 3}},
       36,
       Pipe::kAlu},
      {"kernels.sm_103a.cubin",
       "dequant_loop",
       {{"PRMT", 4}, {"LOP3", 4}, {"HFMA2", 4}, {"SHF", 4}, {"LDG", 1}, {"STG", 1}, {"IMAD", 8}, {"IADD3", 3}},
       36,
       Pipe::kAlu},
      {"kernels.sm_103a.cubin",
       "softmax_loop",
       {{"MUFU", 4}, {"F2FP", 2}, {"FFMA", 4}, {"FADD", 4}, {"LDG", 1}, {"STG", 1}, {"IADD3", 4}, {"MOV", 2}},
       26,
       Pipe::kIssue},
      {"kernels.sm_103a.cubin",
       "dynamic_array",
       {{"LDL", 1}, {"STL", 1}, {"LDG", 1}, {"UIADD3", 4}, {"UISETP", 1}, {"IMAD", 2}, {"LOP3", 1}, {"SHF", 1}},
       15,
       Pipe::kIssue},
      {"kernels.sm_80.cubin", "hmma_loop", {{"HMMA", 4}, {"BRA", 1}}, 32, Pipe::kTensor},
      {"kernels.sm_90a.cubin", "hmma_loop", {{"HMMA", 4}, {"BRA", 1}}, 24, Pipe::kTensor},
      {"kernels.sm_100a.cubin", "hmma_loop", {{"HMMA", 4}, {"BRA", 1}}, 32, Pipe::kTensor},
      {"kernels.sm_103a.cubin", "hmma_loop", {{"HMMA", 4}, {"BRA", 1}}, 32, Pipe::kTensor},
      {"kernels.sm_90a.cubin", "wgmma_loop", {{"HGMMA", 4}, {"WARPGROUP", 2}}, 32, Pipe::kTensor},
      {"kernels.sm_90a.cubin", "wgmma_serial", {{"HGMMA", 4}, {"WARPGROUP", 8}}, 32, Pipe::kTensor},
      {"kernels.sm_90a.cubin", "poly_rolled", {{"FFMA", 2}, {"LDG", 1}, {"STG", 1}}, 16, Pipe::kAlu},
      {"kernels.sm_80.cubin",
       "dynamic_array",
       {{"LDG", 1},
        {"SHF", 1},
        {"LOP3", 1},
        {"LDL", 1},
        {"STL", 1},
        {"IMAD", 2},
        {"MOV", 1},
        {"BRA", 1},
        {"UIADD3", 2},
        {"IADD3", 2},
        {"ISETP", 1}},
       14,
       Pipe::kIssue},
      {"kernels.sm_90a.cubin",
       "dynamic_array",
       {{"LDG", 1},
        {"SHF", 1},
        {"LOP3", 1},
        {"LDL", 1},
        {"STL", 1},
        {"IMAD", 2},
        {"MOV", 1},
        {"BRA", 1},
        {"UIADD3", 3},
        {"IADD3", 1},
        {"ISETP", 1}},
       14,
       Pipe::kIssue},
      {"kernels.sm_100a.cubin",
       "dynamic_array",
       {{"LDG", 1},
        {"SHF", 1},
        {"LOP3", 1},
        {"LDL", 1},
        {"STL", 1},
        {"IMAD", 2},
        {"MOV", 1},
        {"BRA", 1},
        {"UIADD3", 4},
        {"IADD3", 1},
        {"UISETP", 1}},
       15,
       Pipe::kIssue},
      {"kernels.sm_80.cubin",
       "forced_spill",
       {{"FFMA", 48},
        {"LDG", 1},
        {"BRA", 1},
        {"LDL", 50},
        {"STL", 45},
        {"UIADD3", 2},
        {"IADD3", 1},
        {"MOV", 3},
        {"ISETP", 1}},
       384,
       Pipe::kLsu},
      {"kernels.sm_90a.cubin",
       "forced_spill",
       {{"FFMA", 48},
        {"LDG", 1},
        {"BRA", 1},
        {"LDL", 52},
        {"STL", 46},
        {"UIADD3", 3},
        {"LDC", 1},
        {"MOV", 2},
        {"ISETP", 1}},
       396,
       Pipe::kLsu},
      {"kernels.sm_100a.cubin",
       "forced_spill",
       {{"FFMA", 48}, {"LDG", 1}, {"BRA", 1}, {"LDL", 55}, {"STL", 48}, {"UIADD3", 3}, {"MOV", 2}, {"UISETP", 1}},
       416,
       Pipe::kLsu},
      {"kernels.sm_103a.cubin",
       "forced_spill",
       {{"FFMA", 48}, {"LDG", 1}, {"BRA", 1}, {"LDL", 55}, {"STL", 48}, {"UIADD3", 3}, {"MOV", 2}, {"UISETP", 1}},
       416,
       Pipe::kLsu},
      {"kernels.sm_80.cubin",
       "exp_denormal",
       {{"MUFU", 1},
        {"FSETP", 1},
        {"FMUL", 2},
        {"LDG", 1},
        {"STG", 1},
        {"MOV", 2},
        {"IADD3", 4},
        {"ISETP", 1},
        {"BRA", 1},
        {"IMAD", 3}},
       17,
       Pipe::kIssue},
      {"kernels.sm_100a.cubin",
       "exp_denormal",
       {{"MUFU", 1},
        {"FSETP", 1},
        {"FMUL", 2},
        {"LDG", 1},
        {"STG", 1},
        {"MOV", 2},
        {"IADD3", 4},
        {"ISETP", 1},
        {"BRA", 1},
        {"IMAD", 2},
        {"VIADD", 1}},
       18,
       Pipe::kAlu},
      {"kernels.sm_103a.cubin",
       "exp_denormal",
       {{"MUFU", 1},
        {"FSETP", 1},
        {"FMUL", 2},
        {"LDG", 1},
        {"STG", 1},
        {"MOV", 2},
        {"IADD3", 4},
        {"ISETP", 1},
        {"BRA", 1},
        {"IMAD", 2},
        {"VIADD", 1}},
       18,
       Pipe::kAlu},
      {"kernels.sm_80.cubin",
       "poly_rolled",
       {{"FFMA", 2}, {"LDG", 1}, {"STG", 1}, {"MOV", 2}, {"IADD3", 4}, {"ISETP", 1}, {"BRA", 1}, {"IMAD", 4}},
       16,
       Pipe::kIssue},
      {"kernels.sm_100a.cubin",
       "poly_rolled",
       {{"FFMA", 2},
        {"LDG", 1},
        {"STG", 1},
        {"MOV", 2},
        {"IADD3", 4},
        {"ISETP", 1},
        {"BRA", 1},
        {"IMAD", 2},
        {"VIADD", 1}},
       16,
       Pipe::kAlu},
      {"kernels.sm_103a.cubin",
       "poly_rolled",
       {{"FFMA", 2},
        {"LDG", 1},
        {"STG", 1},
        {"MOV", 2},
        {"IADD3", 4},
        {"ISETP", 1},
        {"BRA", 1},
        {"IMAD", 2},
        {"VIADD", 1}},
       16,
       Pipe::kAlu},
      {"kernels.sm_90a.cubin", "exp_denormal", {{"MUFU", 1}, {"FSETP", 1}, {"FMUL", 2}}, 18, Pipe::kAlu},
  };
  for (const Counted& c : counted) {
    const Program program = program_of(c.file);
    const KernelReport report = report_of(program, c.kernel);
    ASSERT_EQ(report.loops.size(), 1u) << c.file << " " << c.kernel;
    const LoopReport& loop = report.loops[0];
    for (const auto& [name, count] : c.mix)
      EXPECT_EQ(loop.mix.at(name), count) << c.file << " " << c.kernel << " " << name;
    EXPECT_EQ(loop.bound_cycles, c.bound) << c.file << " " << c.kernel;
    EXPECT_EQ(loop.bound_by, c.bound_by) << c.file << " " << c.kernel << " by " << name_of(loop.bound_by);
  }
}

TEST(SassCounts, FillEachUnitOfTheMachine) {
  // The 103a array loop by hand: five instructions of the uniform unit and three of the LSU, at 2 and 4 cycles.
  const Program arrays = program_of("kernels.sm_103a.cubin");
  const LoopReport array = report_of(arrays, "dynamic_array").loops.at(0);
  EXPECT_EQ(pipe(array, Pipe::kUniform), 5 * 2);
  EXPECT_EQ(pipe(array, Pipe::kLsu), 3 * 4);
  // Conversions to packed formats share the ALU on every architecture whose rates are known; none has a unit of its
  // own.
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a", "sm_103a"}) {
    Instruction pack;
    pack.mnemonic = "F2FP.BF16.F32.PACK_AB";
    const Cost cost = Machine::of(arch).value()->cost(pack);
    EXPECT_EQ(cost.uses[static_cast<std::size_t>(Pipe::kAlu)], 2) << arch;
    EXPECT_EQ(cost.uses[static_cast<std::size_t>(Pipe::kF2fp)], 0) << arch;
  }
  // A model that gives it one is followed.
  const auto own = Machine::parse(
      R"({"schema":"pinch-gpu-rates/1","name":"x","sources":{"s":{"measured":true}},"scheduler":{"policy":{"value":"greedy"},"taken_branch":{"value":1,"unit":"cycles","from":"s"},)"
      R"("drain":{"value":1,"unit":"cycles","from":"s"},"queue":{"value":0,"unit":"cycles","from":"s"}},"instructions":[{"match":"F2FP","uses":{"f2fp":2},"from":"s"}]})",
      "planted");
  ASSERT_TRUE(own.ok()) << own.error().message();
  Instruction pack;
  pack.mnemonic = "F2FP.BF16.F32.PACK_AB";
  EXPECT_EQ(own->cost(pack).uses[static_cast<std::size_t>(Pipe::kF2fp)], 2);
  const LoopReport copies = report_of(loop_of({{kNext, "UTMALDG.2D [UR8], [UR4], desc[UR6]"},
                                               {kNext, "LDGSTS.E [R0], desc[UR4][R2.64]"},
                                               {kNext, "UIADD3 UR4, UR4, 0x1, URZ"}}),
                                      "loop")
                                .loops.at(0);
  EXPECT_EQ(pipe(copies, Pipe::kAsync), 2);
  EXPECT_EQ(pipe(copies, Pipe::kUniform), 2);
}

TEST(SassCounts, HalveTheExponentialOnSm103) {
  const Program program = program_of("kernels.sm_103a.cubin");
  const KernelReport report = report_of(program, "softmax_loop");
  EXPECT_EQ(pipe(report.loops.at(0), Pipe::kXu), 16);
}

TEST(SassCounts, UnrolledCodeHoldsSixteenTimesTheLoop) {
  for (const char* arch : {"80", "90a", "100a", "103a"}) {
    const Program program = program_of(fmt::format("kernels.sm_{}.cubin", arch));
    std::map<std::string_view, int> counts;
    for (const Instruction& i : kernel_of(program, "poly_unrolled").instructions) ++counts[i.base()];
    EXPECT_EQ(counts["FFMA"], 32) << arch;
    EXPECT_EQ(counts["FFMA"], 16 * report_of(program, "poly_rolled").loops.at(0).mix.at("FFMA")) << arch;
    EXPECT_EQ(counts["LDG"], 16) << arch;
    EXPECT_EQ(counts["STG"], 16) << arch;
    EXPECT_EQ(counts["IMAD"], 2) << arch;
    EXPECT_TRUE(report_of(program, "poly_unrolled").loops.empty()) << arch;  // but the trap's, which nothing reaches
  }
}

// Text that a disassembler wrote, beside the cubin it was written of, read by the opcode map alone.
struct Roads {
  const char *text, *cubin;
  bool has_words = true;
};

void expect_equal_roads(const Roads& files) {
  const Program text = program_of(files.text), map = program_of(files.cubin);
  ASSERT_EQ(text.kernels.size(), map.kernels.size()) << files.cubin;
  for (const Kernel& kernel : text.kernels) {
    EXPECT_EQ(kernel_of(map, kernel.name).unknown_instructions(), 0) << kernel.name;
    const KernelReport a = report_of(text, kernel.name), b = report_of(map, kernel.name);
    ASSERT_EQ(a.loops.size(), b.loops.size()) << kernel.name;
    EXPECT_EQ(a.local.spill_loads, b.local.spill_loads) << kernel.name;
    EXPECT_EQ(a.local.array_stores, b.local.array_stores) << kernel.name;
    for (std::size_t l = 0; l < a.loops.size(); ++l) {
      EXPECT_EQ(a.loops[l].begin, b.loops[l].begin) << kernel.name;
      EXPECT_EQ(a.loops[l].end, b.loops[l].end) << kernel.name;
      EXPECT_EQ(a.loops[l].mix, b.loops[l].mix) << kernel.name;
      EXPECT_EQ(a.loops[l].pipes, b.loops[l].pipes) << kernel.name;
      EXPECT_EQ(a.loops[l].global_bytes, b.loops[l].global_bytes) << kernel.name;
      EXPECT_EQ(a.loops[l].shared_bytes, b.loops[l].shared_bytes) << kernel.name;
      EXPECT_TRUE(a.loops[l].dependency_cycles && a.loops[l].loads) << kernel.name;
      EXPECT_FALSE(b.loops[l].dependency_cycles || b.loops[l].loads) << kernel.name << ": operands are not known";
      if (files.has_words) {
        EXPECT_EQ(a.loops[l].simulated_cycles, b.loops[l].simulated_cycles) << kernel.name;
        EXPECT_EQ(a.loops[l].slack(), b.loops[l].slack()) << kernel.name;
      }
    }
  }
}

TEST(SassRoads, GiveTheSameFiguresWithAndWithoutADisassembler) {
  for (const Roads& files : {Roads{"kernels.sm_90a.nvdisasm.txt", "kernels.sm_90a.cubin"},
                             Roads{"kernels.sm_80.cuobjdump.txt", "kernels.sm_80.cubin"},
                             Roads{"kernels.sm_100a.nvdisasm.txt", "kernels.sm_100a.cubin"},
                             Roads{"kernels.sm_103a.nvdisasm.txt", "kernels.sm_103a.cubin"}})
    expect_equal_roads(files);
}

TEST(SassRoads, AgreeOnCodeThatTheMapIsNotDerivedFrom) {
  for (const char* arch : {"80", "90a", "100a", "103a"}) {
    const std::string text = fmt::format("heldout.sm_{}.nohex.txt", arch),
                      cubin = fmt::format("heldout.sm_{}.cubin", arch);
    expect_equal_roads({text.c_str(), cubin.c_str(), false});
  }
}

TEST(SassRoads, TellTheProductsOfTcgen05Apart) {
  // tcgen05.mma of each kind, as ptxas 13.0 encodes it for sm_100a.
  Kernel kernel;
  kernel.arch = "sm_100a";
  for (const auto& [low, high] : {std::pair{0x00ff060a080075eaull, 0x08000004ull},
                                  {0x00ff060a080075eaull, 0x08000104ull},
                                  {0x00ff060a080075eaull, 0x08000304ull},
                                  {0xc0040c0a080075eaull, 0x08000006ull}}) {
    kernel.instructions.emplace_back();
    kernel.instructions.back().low = low;
    kernel.instructions.back().high = high;
  }
  name_opcodes(kernel);
  std::vector<std::string_view> names;
  for (const Instruction& i : kernel.instructions) names.push_back(i.mnemonic);
  EXPECT_THAT(names, testing::ElementsAre("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA"));
}

TEST(SassRoads, CountWhatTheMapDoesNotName) {
  Program program = program_of("kernels.sm_90a.cubin");
  Kernel& kernel = *std::find_if(program.kernels.begin(), program.kernels.end(),
                                 [](const Kernel& k) { return k.name == "softmax_loop"; });
  const KernelReport before = report_of(program, "softmax_loop");
  for (Instruction& i : kernel.instructions) {
    if (i.is("MUFU")) i.low |= 0x1ff;  // an operation that no build has
  }
  name_opcodes(kernel);
  EXPECT_EQ(kernel.unknown_instructions(), 4);
  const KernelReport report = report_of(program, "softmax_loop");
  EXPECT_EQ(report.loops.at(0).mix.at("?"), 4);
  EXPECT_EQ(report.loops.at(0).unlisted, before.loops.at(0).unlisted + 4);
  EXPECT_EQ(pipe(report.loops.at(0), Pipe::kXu), 0);
}

}  // namespace
}  // namespace pinch::sass
