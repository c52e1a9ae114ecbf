// Bounds: from counts and rates to cycles by unit.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/sass_corpus/measurements.h"
#include "tests/support/probe_entry.h"
#include "tests/unit/sass_support.h"
#include "workbench/probe/bound.h"
#include "workbench/probe/proof.h"

namespace pinch::probe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Bounds, NameTheUnitAndWhatIsLeft) {
  // exp2 of a 128 x 128 tile on one of four sub-partitions of an sm_103: 4 cycles each.
  const auto counts = parse_counts("MUFU.EX2=128,F2FP=64");
  ASSERT_TRUE(counts.ok());
  const auto machine = sass::Machine::of("sm_103a").value();
  const auto before = bound(*counts, *machine);
  ASSERT_TRUE(before.ok()) << before.error().message();
  EXPECT_EQ(before->by, "xu");
  EXPECT_EQ(before->cycles, 512);
  const auto moved = move_counts(*counts, "MUFU.EX2:25:FFMA=6");
  ASSERT_TRUE(moved.ok());
  const auto after = bound(*moved, *machine);
  EXPECT_EQ(after->cycles, 384);
  EXPECT_EQ(after->by, "xu");
  ASSERT_FALSE(after->next.empty());
  EXPECT_EQ(after->next[0].relieved, "xu");
  EXPECT_EQ(after->next[0].by, "issue");
  EXPECT_EQ(after->next[0].cycles, 96 + 192 + 64);
}

TEST(Bounds, ShareAUnitWithinAGroupOfAModel) {
  Model model;
  model.name = "m";
  model.entries = {entry_of("ex2", 16, Origin::kMeasured), entry_of("cvt", 64, Origin::kMeasured),
                   entry_of("ffma", 128, Origin::kMeasured)};
  model.entries[0].group = model.entries[1].group = "one";
  const auto result = bound({{"ex2", 10}, {"cvt", 10}, {"ffma", 5}}, model);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->units.at("one"), 10 * 8 + 10 * 2);
  EXPECT_EQ(result->units.at("issue"), 25);
  EXPECT_EQ(result->by, "one");
  const auto unknown = bound({{"fnord", 1}}, model);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message(), HasSubstr("cvt ex2 ffma"));
}

TEST(Bounds, NameWhatWasNeverShownToBeOneUnitOrTwo) {
  Model model;
  for (const char* name : {"lop3", "prmt", "iadd3", "ffma"})
    model.entries.push_back(entry_of(name, 64, Origin::kMeasured));
  model.entries[0].group = model.entries[1].group = "lop3";
  model.pairs = {{"ffma", "prmt", 1.95, 2, 0, true, ""}, {"iadd3", "lop3", 1.5, 2, 0, true, ""}};
  const auto result = bound({{"lop3", 64}, {"iadd3", 64}, {"ffma", 1}}, model);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->cycles, 129);  // issue; 256 if the first two share a unit
  EXPECT_THAT(result->sharing_unknown, ElementsAre("ffma, iadd3", "iadd3, lop3"));  // a group's pair speaks for it
  EXPECT_TRUE(bound({{"lop3", 64}, {"prmt", 64}}, model)->sharing_unknown.empty());
}

TEST(Bounds, SayWhichEntryStandsForAnOpcodeOfSeveral) {
  Model model;
  model.entries = {entry_of("cvt.a", 64, Origin::kMeasured), entry_of("cvt.b", 32, Origin::kMeasured)};
  model.entries[0].opcode = "F2FP.BF16";
  model.entries[1].opcode = "F2FP.SATFINITE.E4M3";
  const auto either = bound({{"F2FP", 10}}, model);
  ASSERT_TRUE(either.ok()) << either.error().message();
  EXPECT_EQ(either->cycles, 20);
  EXPECT_EQ(either->counted_as.at("F2FP"), "cvt.a");
  const auto one = bound({{"F2FP.SATFINITE.E4M3", 10}}, model);
  EXPECT_EQ(one->cycles, 40);
  EXPECT_FALSE(bound({{"F2F", 1}}, model).ok());  // whole modifiers only
  const auto longer = bound({{"F2FP.SATFINITE.E4M3.F32.PACK_AB", 10}, {"BRA", 50}}, model);
  ASSERT_TRUE(longer.ok()) << longer.error().message();
  EXPECT_EQ(longer->counted_as.at("F2FP.SATFINITE.E4M3.F32.PACK_AB"), "cvt.b");
  EXPECT_THAT(longer->without_rate, ElementsAre("BRA"));
  EXPECT_EQ(longer->units.at("issue"), 60);
  const auto by_arch = bound({{"FFMA", 10}, {"FNORD", 50}}, *sass::Machine::of("sm_90a").value());
  ASSERT_TRUE(by_arch.ok()) << by_arch.error().message();
  EXPECT_THAT(by_arch->without_rate, ElementsAre("FNORD"));
  EXPECT_EQ(by_arch->units.at("issue"), 60);
  model.entries[0].value = 1e-300;
  EXPECT_THAT(bound({{"cvt.a", 1e10}}, model).error().message(), HasSubstr("more than a number holds"));
}

// Entries of an sm_90a, by name and lanes a clock, with their opcodes.
Model hopper(const std::vector<std::tuple<std::string, std::string, double>>& entries) {
  Model model;
  model.arch = "sm_90a";
  for (const auto& [name, opcode, lanes] : entries) {
    model.entries.push_back(entry_of(name, lanes, Origin::kMeasured));
    model.entries.back().opcode = opcode;
  }
  return model;
}

TEST(Bounds, AddUpWhatIsOfOneStatedPipe) {
  Model model = hopper({{"lop3", "LOP3.LUT", 64}, {"iadd3", "IADD3", 64}, {"ffma", "FFMA", 128}, {"imad", "IMAD", 64}});
  const auto result = bound({{"lop3", 64}, {"IADD3", 64}, {"ffma", 1}}, model);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result->by, "alu");
  EXPECT_EQ(result->cycles, 256);
  EXPECT_EQ(result->units.at("fma"), 1);
  EXPECT_EQ(result->units.at("issue"), 129);
  EXPECT_THAT(result->units_as_stated, ElementsAre("lop3", "IADD3", "ffma"));
  EXPECT_TRUE(result->sharing_unknown.empty());
  // The rate is the model's, not the table's.
  model.entries[1].value = 32;
  EXPECT_EQ(bound({{"lop3", 64}, {"IADD3", 64}}, model)->cycles, 64 * 2 + 64 * 4);
  model.arch = "sm_90x";
  EXPECT_EQ(bound({{"lop3", 64}}, model).error().code, ErrorCode::kUnsupported);
}

TEST(Bounds, LetAPairOfTheModelOverruleTheStatedPipes) {
  Model model = hopper({{"lop3", "LOP3.LUT", 64}, {"fmax", "FMNMX", 64}, {"ffma", "FFMA", 128}, {"imad", "IMAD", 64}});
  const auto stated = bound({{"ffma", 10}, {"imad", 10}}, model);
  EXPECT_EQ(stated->units.at("fma"), 20);
  EXPECT_EQ(stated->units.at("fma_heavy"), 20);
  model.pairs = {{"ffma", "imad", 0.98, 1.5, 0, true, ""}, {"lop3", "fmax", 1.98, 2, 0, true, ""}};
  const auto one = bound({{"ffma", 10}, {"imad", 10}}, model);
  EXPECT_EQ(one->units.at("fma+fma_heavy"), 30);
  EXPECT_TRUE(one->units_as_stated.empty());
  const auto two = bound({{"lop3", 10}, {"fmax", 10}}, model);
  EXPECT_EQ(two->units.at("lop3"), 20);
  EXPECT_EQ(two->units.at("fmax"), 20);
  EXPECT_TRUE(two->sharing_unknown.empty());
}

TEST(Bounds, GiveOneSubPartitionItsShareOfWhatFourHaveTogether) {
  const Model model = hopper({{"lds.32", "LDS", 32}, {"ffma", "FFMA", 128}});
  const Counts counts{{"LDS", 8}, {"FFMA", 4}, {"STS", 4}};
  for (const auto& [partitions, lsu] : {std::pair(4, 8 * 4 + 4 * 4.0), {1, 8 + 4.0}}) {
    const auto result = bound(counts, model, partitions);
    ASSERT_TRUE(result.ok()) << result.error().message();
    EXPECT_EQ(result->units.at("lsu"), lsu);
    EXPECT_EQ(result->units.at("fma"), 4);
    EXPECT_EQ(bound(counts, *sass::Machine::of("sm_90a").value(), partitions)->units.at("lsu"), lsu);
  }
}

TEST(Bounds, TakeTheRatesOfACore) {
  Model model;
  model.name = "core";
  for (const auto& [name, rate] : {std::pair("fma.512", 2.0), {"add.512", 2.0}, {"div.512", 0.1}}) {
    model.entries.push_back(entry_of(name, rate, Origin::kMeasured));
    model.entries.back().unit = "instructions/cycle/core";
  }
  model.entries[0].group = model.entries[1].group = "add.512";
  model.pairs = {{"add.512", "div.512", 1.9, 1.95, 0, true, ""}};
  const auto result = bound({{"fma.512", 6}, {"add.512", 4}, {"div.512", 2}, {"fnord", 100}}, model);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_THAT(result->without_rate, ElementsAre("fnord"));
  EXPECT_EQ(result->units.at("add.512"), 5);
  EXPECT_EQ(result->by, "div.512");
  EXPECT_EQ(result->cycles, 20);
  EXPECT_EQ(result->units.count("issue"), 0u);
  EXPECT_TRUE(result->sharing_unknown.empty());
}

TEST(Bounds, TakeWhatIsStatedOfWhatWasNotMeasuredAlone) {
  Model model = hopper({{"hfma2", "HFMA2", 128}, {"mma.bf16", "HMMA.16816.F32.BF16", 128 / 6.0}});
  model.entries[0].also = "HFMA2.MMA";
  const auto result = bound({{"ISETP.GE.AND", 10}, {"HFMA2", 10}, {"hfma2", 2}, {"FNORD", 5}}, model);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result->units.at("alu"), 20);
  EXPECT_EQ(result->units.at("fma_heavy"), 22);  // two cycles; the one of the model is that of a mix of two units
  EXPECT_EQ(result->units.at("half"), 2);        // one of two `hfma2`
  EXPECT_EQ(result->units.at("issue"), 27);
  EXPECT_THAT(result->rates_as_stated, ElementsAre("ISETP.GE.AND", "HFMA2", "hfma2"));
  EXPECT_THAT(result->without_rate, ElementsAre("FNORD"));
  const auto products = bound({{"HMMA.16816.F32.BF16", 10}}, model);  // of the tensor unit, and beside it
  EXPECT_NEAR(products->units.at("tensor"), 60, 1e-9);
  EXPECT_EQ(products->units.at("alu"), 40);
  EXPECT_EQ(products->units.at("issue"), 40);
}

TEST(Bounds, LetAnEntryServeItsVeryOpcodeAlone) {
  Model model = hopper({{"hfma2", "HFMA2", 128},
                        {"masked", "F2FP", 31},
                        {"cvt.bf16x2", "F2FP.BF16.F32.PACK_AB", 60},
                        {"imad", "IMAD", 64},
                        {"mma.e4m3", "HMMA.16816.F32", 11},
                        {"ldg.l1", "LDG.E.64.STRONG.SM", 16},
                        {"fmax", "FMNMX", 32}});
  model.entries[0].also = "HFMA2.MMA";
  model.entries[1].proof = "32 F2FP with 43 others (LOP3 x 32)";
  model.entries[2].proof = "32 F2FP.BF16.F32.PACK_AB with 1 others (PRMT x 1)";  // 3%
  model.entries[4].proof = "32 HMMA.16816.F32 with 227 others (F2FP x 100)";
  model.entries[6].mark = "spread 8% over 5%";
  const auto units = [&](const std::string& name) {
    const auto result = bound({{name, 16}}, model);
    EXPECT_TRUE(result.ok()) << name;
    return result.ok() ? *result : Bound{};
  };
  EXPECT_EQ(units("HFMA2.MMA").units.at("half"), 32);  // of another unit than HFMA2
  EXPECT_EQ(units("HFMA2.MMA").units.count("fma_heavy"), 0u);
  EXPECT_EQ(units("IMAD").units.at("fma_heavy"), 32);
  EXPECT_EQ(units("IMAD.HI").units.at("fma_heavy"), 64);
  EXPECT_THAT(units("IMAD.HI").rates_as_stated, ElementsAre("IMAD.HI"));
  EXPECT_EQ(units("F2FP.RELU.BF16.F32.PACK_AB").units.at("alu"), 32);
  EXPECT_TRUE(units("F2FP.RELU.BF16.F32.PACK_AB").counted_as.empty());
  EXPECT_NEAR(units("F2FP.BF16.F32.PACK_AB").units.at("alu"), 16 * 128 / 60.0, 1e-9);
  EXPECT_EQ(units("F2FP").units.at("alu"), 32);                         // any of them: not slower than what is stated
  EXPECT_NEAR(units("masked").units.at("alu"), 16 * 128 / 31.0, 1e-9);  // by its name, the operation with its mask
  for (const char* product : {"HMMA.16816.F32", "HMMA.16816.F32.TF32"})
    EXPECT_EQ(units(product).units.at("tensor"), 96);
  EXPECT_EQ(units("LDG.E").units.at("lsu"), 64);
  EXPECT_EQ(units("FMNMX").units.at("alu"), 32);
}

TEST(Bounds, ReadWhatALoopHeldBesideWhatIsTimed) {
  Proof proof{.opcode = "F2FP", .expected = 32, .found = 32, .others = 43, .instead = "LOP3 x 32", .beside = {}};
  const Others held = others_of(to_string(proof));
  EXPECT_EQ(std::tuple(held.timed, held.all, held.opcode, held.of_opcode), std::tuple(32, 43, "LOP3", 32));
  proof.others = 0;
  EXPECT_EQ(others_of(to_string(proof)).all, 0);
  EXPECT_EQ(others_of("none: cited").all, 0);
}

// Measured loops, at 1 to 32 warps, whose bound by a model's rates is more than 2% above what the device took.
int above_measured(const Model& model, const sass::Program& program, double factor, int& rows) {
  const std::string times = std::string(PINCH_SOURCE_DIR) + "/data/sass/h200_loops.csv";
  int above = 0;
  for (const auto& [name, by_warps] : corpus::read_measurements(times.c_str())) {
    const auto report = sass::test::report_of(program, name);
    for (const auto& [warps, cycles] : by_warps) {
      const int sub_partitions = std::min(warps, sass::kSubPartitions);
      double most = 0;
      for (const sass::LoopReport& loop : report.loops) {
        const auto result = bound(Counts(loop.opcodes.begin(), loop.opcodes.end()), model, sub_partitions);
        EXPECT_TRUE(result.ok()) << name;
        if (result.ok()) most = std::max(most, result->cycles);
      }
      ++rows;
      const bool is_above = factor * most * warps / sub_partitions > 1.02 * cycles;
      above += is_above;
      if (factor == 1) {
        EXPECT_FALSE(is_above) << name << ", " << warps << " warps: " << most << " of " << cycles;
      }
    }
  }
  return above;
}

TEST(Bounds, OfAMeasuredModelAreAtMostTwoPercentAboveEveryMeasuredLoop) {
  sass::InputOptions named;  // by nvdisasm where it is found, and by the opcode map, which knows fewer modifiers
  const std::string cubin = std::string(PINCH_SOURCE_DIR) + "/data/sass/h200_loops.cubin";
  std::vector<sass::Program> programs = {sass::test::program_at(cubin)};
  if (auto program = sass::read_program(cubin, named); program.ok()) programs.push_back(std::move(program.value()));
  for (const char* file : {"/data/machines/h200-rates.json", "/data/h200/probe/again.json"}) {
    const std::string path = PINCH_SOURCE_DIR + std::string(file);
    const Model model = parse_model(*sass::test::read_all(path), path).value();
    for (const sass::Program& program : programs) {
      int rows = 0;
      EXPECT_EQ(above_measured(model, program, 1, rows), 0) << file;
      EXPECT_EQ(rows, 1336);
      EXPECT_GT(above_measured(model, program, 1.05, rows), 100) << "rates that are 5% too slow are seen";
    }
  }
}

constexpr char kSassDocument[] = R"({"kernels":[{"name":"k","arch":"sm_90a","loops":[
  {"sub_partitions":4,"pipes":{"issue":25,"xu":32,"fma":8},"opcodes":{"MUFU.EX2":3,"MUFU.EX2.F16":1,"FFMA":8}},
  {"sub_partitions":1,"pipes":{"issue":5,"lsu":2},"opcodes":{"LDS":1}}]}]})";

TEST(Bounds, TakeTheLoopThatPinchSassReported) {
  const auto loop = loop_cost(kSassDocument, "doc", "k", 0);
  ASSERT_TRUE(loop.ok()) << loop.error().message();
  const Bound first = bound(*loop);
  EXPECT_EQ(first.by, "xu");
  EXPECT_EQ(first.cycles, 32);
  ASSERT_EQ(first.next.size(), 2u);
  EXPECT_EQ(first.next[0].by, "issue");
  EXPECT_EQ(bound(*loop_cost(kSassDocument, "doc", "k", 1)).cycles, 5);
  EXPECT_THAT(loop_cost(kSassDocument, "doc", "k", 2).error().message(), HasSubstr("k (2 loops)"));
  EXPECT_THAT(loop_cost(kSassDocument, "doc", "other", 0).error().message(), HasSubstr("k (2 loops)"));
  EXPECT_EQ(loop_cost("[]", "doc", "k", 0).error().code, ErrorCode::kCorrupt);
}

TEST(Bounds, MoveInstructionsOfALoopByTheRatesOfItsArch) {
  const auto loop = loop_cost(kSassDocument, "doc", "k", 0).value();
  const auto moved = move_in_loop(loop, "MUFU.EX2:25:FFMA=6");  // of four, at 8 cycles of xu each, to six FFMA of 1
  ASSERT_TRUE(moved.ok()) << moved.error().message();
  const Bound after = bound(*moved);
  EXPECT_EQ(after.units.at("xu"), 32 - 8);
  EXPECT_EQ(after.units.at("issue"), 25 - 1 + 6);
  EXPECT_EQ(after.units.at("fma"), 8 + 6);
  EXPECT_EQ(after.by, "issue");
  EXPECT_EQ(bound(*move_in_loop(*moved, "FFMA:100:FMUL=1")).units.at("fma"), 8 + 6);  // moves add up
  // One sub-partition alone has the whole SM's path to shared memory: a load takes a quarter of what it takes of four.
  const auto alone = move_in_loop(*loop_cost(kSassDocument, "doc", "k", 1), "LDS:50:FADD=1");
  ASSERT_TRUE(alone.ok()) << alone.error().message();
  sass::Instruction load;
  load.mnemonic = "LDS";
  const double all = sass::Machine::of("sm_90a").value()->cost(load).uses[static_cast<std::size_t>(sass::Pipe::kLsu)];
  EXPECT_EQ(bound(*alone).units.at("lsu"), 2 - all / 4 / 2);
  EXPECT_THAT(move_in_loop(loop, "MUFU.RCP:25:FFMA=6").error().message(), HasSubstr("FFMA MUFU.EX2 MUFU.EX2.F16"));
  EXPECT_THAT(move_in_loop(loop, "MUFU.EX2:25:FNORD=6").error().message(), HasSubstr("FNORD"));
}

TEST(Bounds, RefuseWhatIsNoCount) {
  for (const char* text : {"", "MUFU", "MUFU=", "MUFU=x", "=3", "MUFU=-1", "MUFU=1e308", "MUFU=1,,"})
    EXPECT_FALSE(parse_counts(text).ok()) << text;
  const auto counts = parse_counts("A=1").value();
  for (const char* text : {"", "A:25", "A:200:B=1", "C:25:B=1", "A:25:B"})
    EXPECT_FALSE(move_counts(counts, text).ok()) << text;
}

}  // namespace
}  // namespace pinch::probe
