// Probes: every loop proved by its own bytes or SASS, planted faults caught, models merged and turned into bounds.
#include <gmock/gmock.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "workbench/probe/bound.h"
#include "workbench/probe/cpu_probe.h"
#include "workbench/probe/cuda_probe.h"

namespace pinch::probe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kLength = 48;

Proof proof_of(const CpuOperation& operation, int chains, int length, const std::string& opcode, int expected) {
  const std::vector<Part> parts{{operation, chains}};
  const auto loop = CpuLoop::assemble(parts, length);
  EXPECT_TRUE(loop.ok()) << (loop.ok() ? "" : loop.error().message());
  return loop.ok() ? prove(loop->bytes(), opcode, expected) : Proof{};
}

TEST(CpuProof, HoldsForEveryProbeAtEveryNumberOfChains) {
  for (const CpuProbe& probe : cpu_probes()) {
    const bool chases = probe.operation.form == Form::kChase;
    for (const int chains : {1, 2, 4, 8, most_chains(probe.operation.bits)}) {
      if (chases && chains > 1) continue;
      for (const int length : {kLength, 2 * kLength}) {
        const Proof proof = proof_of(probe.operation, chains, length, probe.operation.mnemonic, length);
        EXPECT_TRUE(proof.proved()) << probe.name << ", " << chains << " chains: " << to_string(proof);
        EXPECT_EQ(proof.others, 0) << probe.name << ": " << proof.instead;
      }
    }
  }
}

TEST(CpuProof, CatchesAnotherOpcode) {
  const Proof proof = proof_of({"vaddps", Form::kBinary, 512}, 4, kLength, "vfmadd231ps", kLength);
  EXPECT_FALSE(proof.proved());
  EXPECT_EQ(proof.found, 0);
  EXPECT_EQ(to_string(proof), "expected 48 vfmadd231ps, found 0 (vaddps x 48 instead)");
}

TEST(CpuProof, CatchesAWrongCount) {
  EXPECT_FALSE(proof_of({"vaddps", Form::kBinary, 256}, 2, kLength, "vaddps", kLength + 1).proved());
  EXPECT_FALSE(proof_of({"vaddps", Form::kBinary, 256}, 2, kLength, "vaddps", kLength - 1).proved());
}

// Sixteen additions that every compiler folds into one.
[[gnu::noinline]] unsigned folded(unsigned x, unsigned iterations) {
  for (unsigned i = 0; i < iterations; ++i) {
    x += 3, x += 3, x += 3, x += 3, x += 3, x += 3, x += 3, x += 3;
    x += 3, x += 3, x += 3, x += 3, x += 3, x += 3, x += 3, x += 3;
    asm volatile("" : "+r"(x));
  }
  return x;
}

TEST(CpuProof, CatchesAChainThatTheCompilerFolded) {
  EXPECT_EQ(folded(1, 2), 97u);
  constexpr std::size_t kEnough = 160;
  EXPECT_FALSE(prove({reinterpret_cast<const std::uint8_t*>(&folded), kEnough}, "add", 16).proved());
}

TEST(CpuProof, SurvivesBytesThatAreNoCode) {
  std::array<std::uint8_t, 64> noise{};
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::uint8_t>(i * 37 + 6);
  EXPECT_FALSE(prove(noise, "vaddps", 1).proved());
  EXPECT_FALSE(prove({}, "vaddps", 1).proved());
}

TEST(CpuLoop, RefusesWhatCannotBeEncoded) {
  const auto unknown = CpuLoop::assemble(std::vector<Part>{{{"vfnord", Form::kBinary, 512}, 1}}, 4);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message(), HasSubstr("vfnord"));
  EXPECT_FALSE(
      CpuLoop::assemble(std::vector<Part>{{{"vpermw", Form::kBinary, 256}, 1}}, 4).ok());  // AVX-512 alone has it
  EXPECT_FALSE(CpuLoop::assemble(std::vector<Part>{{{"vaddps", Form::kBinary, 512}, 17}}, 4).ok());
}

TEST(CpuProbe, MeasuresWhatItProved) {
  if (__builtin_cpu_supports("avx2") == 0) GTEST_SKIP() << "no AVX2";
  CpuOptions options;
  options.only = "^(add|mul)\\.256$|^load\\.64$";
  options.quick = true;
  options.pairs = false;
  measure::SystemClock clock;
  const auto model = measure_cpu(options, clock);
  ASSERT_TRUE(model.ok()) << model.error().message();
  int instructions = 0;
  for (const Entry& entry : model->entries) {
    ASSERT_TRUE(entry.value.has_value()) << entry.name;
    if (entry.opcode.empty()) continue;
    ++instructions;
    EXPECT_TRUE(entry.proved) << entry.name;
    EXPECT_EQ(entry.proof.rfind("48 ", 0), 0u) << entry.proof;
  }
  EXPECT_EQ(instructions, 5);  // rates and latencies of two, the latency of a load
  options.only = "nothing_like_it";
  const auto none = measure_cpu(options, clock);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message(), HasSubstr("fma.512"));
}

Entry entry_of(const std::string& name, double value, Origin origin) {
  Entry entry;
  entry.name = name;
  entry.value = value;
  entry.unit = "lanes/clk/SM";
  entry.origin = origin;
  entry.method = "by hand";
  entry.source = "test";
  return entry;
}

TEST(MachineModel, ComesBackFromItsText) {
  Model model;
  model.name = "m";
  model.device = "d";
  model.date = "2026-01-02";
  model.tools["ptxas"] = "13.0";
  model.entries = {entry_of("a", 16, Origin::kMeasured), entry_of("b", 62.7, Origin::kCited)};
  model.entries[0].opcode = "MUFU.EX2";
  model.entries[0].proved = true;
  model.entries[0].proof = "64 MUFU.EX2";
  model.entries[0].spread = 0.08;
  mark_spread(model.entries[0]);
  Entry failed = entry_of("c", 1, Origin::kMeasured);
  failed.value.reset();
  failed.opcode = "MUFU.RCP";
  model.entries.push_back(failed);
  model.pairs = {{"a", "b", 1.02, 2, 0.01, true}};
  const std::string text = to_json(model).dump();
  const auto read = parse_model(text, "text");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(to_json(*read).dump(), text);
  EXPECT_THAT(read->entries[0].mark, HasSubstr("spread 8.0%"));
  EXPECT_FALSE(read->entries[2].value.has_value());
}

TEST(MachineModel, IsRefusedWhereItSaysTooLittle) {
  const std::string good =
      R"({"name":"a","value":1,"unit":"cycles","spread":0,"origin":"cited","method":"m","proved":false,"source":"s"})";
  const auto parse = [](const std::string& entry) {
    return parse_model(R"({"schema":"pinch-probe/1","name":"n","device":"d","entries":[)" + entry + "]}", "planted");
  };
  EXPECT_TRUE(parse(good).ok());
  const auto change = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto read = parse(text);
    return read.ok() ? std::string() : read.error().message();
  };
  EXPECT_THAT(change("\"cycles\"", "\"furlongs\""), HasSubstr("unit 'furlongs' is none of"));
  EXPECT_THAT(change("\"cited\"", "\"guessed\""), HasSubstr("assumed, cited, measured"));
  EXPECT_THAT(change("\"s\"", "\"\""), HasSubstr("source"));
  EXPECT_THAT(change("\"value\":1", "\"value\":-1"), HasSubstr("above 0"));
  EXPECT_THAT(change("\"method\":\"m\",", ""), HasSubstr("method"));
  EXPECT_THAT(change("\"cited\"", "\"measured\",\"opcode\":\"FFMA\""), HasSubstr("must be proved"));
  EXPECT_THAT(parse(good + "," + good).error().message(), HasSubstr("listed twice"));
  EXPECT_THAT(parse_model("[]", "planted").error().message(), HasSubstr("planted"));
}

TEST(MachineModel, MergeKeepsMeasuredOverCitedOverAssumed) {
  Model into, other;
  into.name = "old";
  other.name = "new";
  into.entries = {entry_of("both", 1, Origin::kMeasured), entry_of("assumed", 1, Origin::kAssumed),
                  entry_of("again", 1, Origin::kMeasured), entry_of("spoilt", 1, Origin::kMeasured)};
  other.entries = {entry_of("both", 2, Origin::kCited), entry_of("assumed", 2, Origin::kCited),
                   entry_of("again", 2, Origin::kMeasured), entry_of("spoilt", 2, Origin::kMeasured),
                   entry_of("only", 2, Origin::kAssumed)};
  other.entries[3].spread = 0.2;
  mark_spread(other.entries[3]);
  const auto lines = merge(into, other);
  EXPECT_EQ(*into.find("both")->value, 1);
  EXPECT_EQ(*into.find("assumed")->value, 2);
  EXPECT_EQ(*into.find("again")->value, 2);
  EXPECT_EQ(*into.find("spoilt")->value, 1);
  EXPECT_EQ(*into.find("only")->value, 2);
  EXPECT_THAT(lines, Contains("both: kept the measured value of old over the cited one of new"));
  EXPECT_THAT(lines, Contains("assumed: kept the cited value of new over the assumed one of old"));
}

TEST(MachineModel, EveryShippedOneIsWholeAndSaysWhatWasMeasured) {
  for (const char* name : {"h200-rates", "emerald-rapids-rates", "zen4", "b200", "gb300", "h100"}) {
    const std::string path = fmt::format("{}/data/machines/{}.json", PINCH_SOURCE_DIR, name);
    std::ifstream file(path);
    const auto model =
        parse_model(std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, path);
    ASSERT_TRUE(model.ok()) << model.error().message();
    EXPECT_FALSE(model->entries.empty()) << name;
    const bool measured = std::string(name) == "h200-rates" || std::string(name) == "emerald-rapids-rates";
    for (const Entry& entry : model->entries)
      EXPECT_EQ(entry.origin == Origin::kMeasured, measured) << name << " " << entry.name;
  }
}

TEST(MachineModel, GroupsWhatDoesNotOverlap) {
  Model model;
  for (const char* name : {"a", "b", "c", "d"}) model.entries.push_back(entry_of(name, 1, Origin::kMeasured));
  model.pairs = {{"a", "b", 1.02, 2, 0, true},
                 {"b", "c", 1.1, 1.5, 0, true},
                 {"a", "d", 1.9, 2, 0, true},
                 {"c", "d", 1.0, 1.1, 0, true}};
  group_by_overlap(model);
  EXPECT_EQ(model.find("a")->group, model.find("b")->group);
  EXPECT_EQ(model.find("c")->group, model.find("b")->group);
  EXPECT_NE(model.find("d")->group, model.find("a")->group);
}

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

TEST(Bounds, TakeTheLoopThatPinchSassReported) {
  const std::string json =
      R"({"kernels":[{"name":"k","loops":[{"pipes":{"issue":25,"xu":32,"fma":8}},{"pipes":{"issue":3}}]}]})";
  const auto first = bound_of_loop(json, "doc", "k", 0);
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_EQ(first->by, "xu");
  EXPECT_EQ(first->cycles, 32);
  ASSERT_EQ(first->next.size(), 2u);
  EXPECT_EQ(first->next[0].by, "issue");
  EXPECT_EQ(bound_of_loop(json, "doc", "k", 1)->cycles, 3);
  EXPECT_THAT(bound_of_loop(json, "doc", "k", 2).error().message(), HasSubstr("k (2 loops)"));
  EXPECT_THAT(bound_of_loop(json, "doc", "other", 0).error().message(), HasSubstr("k (2 loops)"));
  EXPECT_EQ(bound_of_loop("[]", "doc", "k", 0).error().code, ErrorCode::kCorrupt);
}

TEST(Bounds, RefuseWhatIsNoCount) {
  for (const char* text : {"", "MUFU", "MUFU=", "MUFU=x", "=3", "MUFU=-1", "MUFU=1,,"})
    EXPECT_FALSE(parse_counts(text).ok()) << text;
  const auto counts = parse_counts("A=1").value();
  for (const char* text : {"", "A:25", "A:200:B=1", "C:25:B=1", "A:25:B"})
    EXPECT_FALSE(move_counts(counts, text).ok()) << text;
}

// SASS of one probe's loop, as text: `body` and the loop's own three instructions.
CudaModule planted(const std::string& kernel, int operations, const std::vector<std::string>& body) {
  std::string text = "\t.target\tsm_90a\n\t.section\t.text." + kernel + ",\"ax\"\n.L_x_0:\n";
  int offset = 0;
  const auto add = [&](const std::string& line) {
    text += fmt::format("  /*{:04x}*/  {} ;\n", offset, line);
    offset += 16;
  };
  for (const std::string& line : body) add(line);
  add("UIADD3 UR4, UR4, -0x1, URZ");
  add("ISETP.NE.AND P0, PT, RZ, UR4, PT");
  add("@P0 BRA `(.L_x_0)");
  add("EXIT");
  CudaModule module;
  module.arch = "sm_90a";
  module.cubin = std::make_shared<const std::string>(text);
  module.kernels = {{kernel, {&cuda_probes()[0]}, 1, operations, {}}};
  return module;
}

TEST(CudaProof, CountsTheLoopOfTheRightKernel) {
  CudaModule module = planted("k", 4, std::vector<std::string>(4, "MUFU.EX2 R0, R0"));
  ASSERT_TRUE(prove(module, {}).ok());
  EXPECT_TRUE(module.kernels[0].proved());
  EXPECT_EQ(module.kernels[0].proofs[0].others, 0);
  module.kernels[0].name = "other";
  ASSERT_TRUE(prove(module, {}).ok());
  EXPECT_FALSE(module.kernels[0].proved());
}

TEST(CudaProof, CatchesAFoldedChainAndAWrongCount) {
  CudaModule folded = planted("k", 4, {"FADD R0, R0, R1", "FADD R0, R0, R1"});
  ASSERT_TRUE(prove(folded, {}).ok());
  EXPECT_FALSE(folded.kernels[0].proved());
  EXPECT_EQ(to_string(folded.kernels[0].proofs[0]), "expected 4 MUFU.EX2, found 0 (FADD x 2 instead)");
  CudaModule short_by_one = planted("k", 4, std::vector<std::string>(3, "MUFU.EX2 R0, R0"));
  ASSERT_TRUE(prove(short_by_one, {}).ok());
  EXPECT_FALSE(short_by_one.kernels[0].proved());
  CudaModule other_function = planted("k", 4, std::vector<std::string>(4, "MUFU.LG2 R0, R0"));
  ASSERT_TRUE(prove(other_function, {}).ok());
  EXPECT_FALSE(other_function.kernels[0].proved());
}

TEST(CudaProbes, AreWrittenForEveryArchAndRefusedForOthers) {
  for (const std::string& arch : cuda_archs()) {
    CudaOptions options;
    options.arch = arch;
    const auto written = write_ptx(options);
    ASSERT_TRUE(written.ok()) << written.error().message();
    EXPECT_THAT(written->first, HasSubstr(".target " + arch));
    EXPECT_EQ(written->first.find("{c}"), std::string::npos);
    EXPECT_GT(written->second.size(), 300u);
    EXPECT_EQ(written->second.size() % 2, 0u);
  }
  CudaOptions options;
  options.arch = "sm_70";
  EXPECT_THAT(write_ptx(options).error().message(), HasSubstr("sm_80 sm_90a sm_100a sm_103a"));
  options.arch = "sm_90a";
  options.only = "cvt.e2m1x2";  // from sm_100 on
  EXPECT_THAT(write_ptx(options).error().message(), HasSubstr("ex2.f32"));
}

}  // namespace
}  // namespace pinch::probe
