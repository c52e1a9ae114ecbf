// Probes: every loop proved by its own bytes or SASS, planted faults caught, models merged and turned into bounds.
#include <gmock/gmock.h>

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "workbench/probe/bound.h"
#include "workbench/probe/cpu_probe.h"
#include "workbench/probe/cuda_probe.h"
#include "workbench/probe/loop_proof.h"

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
    EXPECT_TRUE(entry.value.has_value() || !entry.mark.empty()) << entry.name;  // a busy machine's clock may not do
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

// Time that goes on by as much at every reading, and now and then back.
class FalteringClock final : public measure::Clock {
 public:
  double wall_ns() override { return now_ += ++readings_ % 7 == 0 ? -50000 : 12000; }
  double cpu_ns() override { return 0; }

 private:
  double now_ = 0;
  int readings_ = 0;
};

TEST(CpuProbe, MarksWhatAClockThatGoesBackwardsSpoils) {
  CpuOptions options;
  options.only = "^load\\.64$";
  options.quick = true;
  options.pairs = false;
  FalteringClock clock;
  const auto model = measure_cpu(options, clock);
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->entries.size(), 4u);  // three clocks and a latency
  for (const Entry& entry : model->entries) EXPECT_THAT(entry.mark, HasSubstr("backwards")) << entry.name;
  EXPECT_TRUE(parse_model(to_json(*model).dump(), "text").ok());
}

Entry entry_of(const std::string& name, double value, Origin origin) {
  Entry entry;
  entry.name = name;
  entry.value = value;
  entry.unit = "lanes/clk/SM";
  entry.origin = origin;
  entry.method = "by hand";
  entry.proof = "none";
  entry.source = "test";
  entry.device = "a device";
  entry.date = "2026-01-02";
  entry.tools = "none";
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
  model.applies_to = "d.*";
  model.pairs = {{"a", "b", 1.02, 2, 0.01, true, ""}, {"a", "c", {}, 2, 0, true, "not measured"}};
  const std::string text = to_json(model).dump();
  const auto read = parse_model(text, "text");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(to_json(*read).dump(), text);
  EXPECT_THAT(read->entries[0].mark, HasSubstr("spread 8.0%"));
  EXPECT_FALSE(read->entries[2].value.has_value());
}

TEST(MachineModel, IsRefusedWhereItSaysTooLittle) {
  const nlohmann::json good = {{"name", "a"},       {"value", 1},      {"unit", "cycles"},     {"spread", 0},
                               {"origin", "cited"}, {"proved", false}, {"method", "m"},        {"proof", "p"},
                               {"source", "s"},     {"device", "d"},   {"date", "2026-01-02"}, {"tools", "t"}};
  const auto parse = [](const std::vector<nlohmann::json>& entries) {
    const nlohmann::json model = {{"schema", "pinch-probe/1"}, {"name", "n"}, {"device", "d"}, {"entries", entries}};
    const auto read = parse_model(model.dump(), "planted");
    return read.ok() ? std::string() : read.error().message();
  };
  EXPECT_EQ(parse({good}), "");
  for (const auto& [field, value] : good.items()) {
    nlohmann::json entry = good;
    entry.erase(field);
    EXPECT_THAT(parse({entry}), HasSubstr("'" + field + "' not found"));
    if (!value.is_string() || field == "name") continue;
    entry[field] = "";
    EXPECT_THAT(parse({entry}), HasSubstr(field)) << field;
  }
  const auto change = [&](const std::string& field, const nlohmann::json& value) {
    nlohmann::json entry = good;
    entry[field] = value;
    return parse({entry});
  };
  EXPECT_THAT(change("unit", "furlongs"), HasSubstr("unit 'furlongs' is none of"));
  EXPECT_THAT(change("origin", "guessed"), HasSubstr("assumed, cited, measured"));
  EXPECT_THAT(change("value", -1), HasSubstr("above 0"));
  EXPECT_THAT(change("spread", -1), HasSubstr("spread"));
  EXPECT_THAT(change("date", "yesterday"), HasSubstr("2026-11-30"));
  EXPECT_THAT(change("date", "2026-02-30"), HasSubstr("no day"));
  EXPECT_THAT(change("date", "2026-13-01"), HasSubstr("no day"));
  EXPECT_THAT(change("spread", 0.06), HasSubstr("must be marked"));
  nlohmann::json measured = good;
  measured["origin"] = "measured";
  measured["opcode"] = "FFMA";
  EXPECT_THAT(parse({measured}), HasSubstr("must be proved"));
  measured.erase("opcode");
  EXPECT_THAT(parse({measured}), HasSubstr("must be proved"));
  measured["unit"] = "GB/s";
  EXPECT_EQ(parse({measured}), "");
  for (const auto& [field, value] : {std::pair("overlap", -1.0), {"most", 0.0}, {"spread", -0.1}, {"spread", 0.2}}) {
    nlohmann::json pair = {{"first", "a"}, {"second", "b"}, {"overlap", 1},
                           {"most", 2},    {"spread", 0},   {"proved", true}};
    pair[field] = value;
    const nlohmann::json model = {
        {"schema", "pinch-probe/1"}, {"name", "n"}, {"device", "d"}, {"entries", {good}}, {"pairs", {pair}}};
    EXPECT_FALSE(parse_model(model.dump(), "planted").ok()) << field << value;
  }
  EXPECT_THAT(parse({good, good}), HasSubstr("listed twice"));
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

TEST(MachineModel, IsNotMergedWithAnotherDevices) {
  Model into, other;
  into.device = "an A";
  other.device = "a B";
  const auto may = may_merge(into, other, "here.json");
  ASSERT_FALSE(may.ok());
  for (const char* part : {"an A", "a B", "here.json"}) EXPECT_THAT(may.error().message(), HasSubstr(part));
  other.device = "an A";
  EXPECT_TRUE(may_merge(into, other, "here.json").ok());
}

TEST(MachineModel, EveryShippedOneIsWholeAndSaysWhatWasMeasured) {
  for (const char* name : {"h200-rates", "h200-stated", "emerald-rapids-rates", "zen4", "b200", "gb300", "h100"}) {
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
  model.pairs = {{"a", "b", 1.02, 2, 0, true, ""},
                 {"b", "c", 1.1, 1.5, 0, true, ""},
                 {"a", "d", 1.9, 2, 0, true, ""},
                 {"c", "d", 1.0, 1.1, 0, true, ""},  // of too unequal times
                 {"b", "d", {}, 2, 0, true, "not measured"}};
  group_by_overlap(model);
  EXPECT_EQ(model.find("a")->group, model.find("b")->group);
  EXPECT_EQ(model.find("c")->group, model.find("b")->group);
  EXPECT_NE(model.find("d")->group, model.find("a")->group);
}

TEST(MachineModel, DecidesNothingByAnOverlapInTheMiddle) {
  EXPECT_EQ(sharing_of({"mma", "lop3", 1.0941, 1.3334, 0, true, ""}), Sharing::kUnknown);  // of an H200
  EXPECT_EQ(sharing_of({"a", "b", 1.02, 1.3334, 0, true, ""}), Sharing::kOneUnit);
  EXPECT_EQ(sharing_of({"a", "b", 1.32, 1.3334, 0, true, ""}), Sharing::kApart);
  EXPECT_EQ(sharing_of({"a", "b", 1.02, 2, 0.2, true, "spread"}), Sharing::kUnknown);
  EXPECT_EQ(sharing_of({"a", "b", 1.02, 2, 0, false, ""}), Sharing::kUnknown);
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

// SASS of one probe's loop, as text: `body` and the loop's own three instructions.
CudaModule planted(const CudaProbe& probe, const std::string& kernel, int operations,
                   const std::vector<std::string>& body) {
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
  module.kernels = {{kernel, {&probe}, 1, operations, {}, ""}};
  return module;
}

const CudaProbe& probe_named(const std::string& name) {
  return *std::find_if(cuda_probes().begin(), cuda_probes().end(), [&](const CudaProbe& p) { return p.name == name; });
}

std::string proof_in(const std::string& name, int operations, const std::vector<std::string>& body) {
  CudaModule module = planted(probe_named(name), "k", operations, body);
  EXPECT_TRUE(prove(module, {}).ok());
  return to_string(module.kernels[0].proofs[0]);
}

TEST(CudaProof, CountsTheLoopOfTheRightKernel) {
  CudaModule module = planted(probe_named("ex2.f32"), "k", 4, std::vector<std::string>(4, "MUFU.EX2 R0, R0"));
  ASSERT_TRUE(prove(module, {}).ok());
  EXPECT_TRUE(module.kernels[0].proved());
  EXPECT_EQ(module.kernels[0].proofs[0].others, 0);
  module.kernels[0].name = "other";
  ASSERT_TRUE(prove(module, {}).ok());
  EXPECT_FALSE(module.kernels[0].proved());
}

TEST(CudaProof, CatchesAFoldedChainAndAWrongCount) {
  EXPECT_EQ(proof_in("ex2.f32", 4, {"FADD R0, R0, R1", "FADD R0, R0, R1"}),
            "expected 4 MUFU.EX2, found 0 (FADD x 2 instead)");
  EXPECT_EQ(proof_in("ex2.f32", 4, std::vector<std::string>(3, "MUFU.EX2 R0, R0")), "expected 4 MUFU.EX2, found 3");
  EXPECT_EQ(proof_in("ex2.f32", 2, std::vector<std::string>(2, "MUFU.LG2 R0, R0")),
            "expected 2 MUFU.EX2, found 0 (MUFU x 2 instead)");
  // The upper half of a product that nobody reads.
  EXPECT_EQ(proof_in("imad.wide", 2, std::vector<std::string>(2, "IMAD R0, R0, R1, RZ")),
            "expected 2 IMAD.WIDE.U32, found 0 (IMAD x 2 instead)");
  EXPECT_EQ(proof_in("ldmatrix.x4", 1, {"LDSM.16.M88.2 R0, [R0]"}),
            "expected 1 LDSM.16.M88.4, found 0 (LDSM x 1 instead)");
}

// One instruction in the place of another that only its modifiers tell apart: nvdisasm names them.
TEST(CudaProof, CatchesAnotherTypeOrCacheLevel) {
  const struct {
    const char *probe, *own, *other;
  } cases[] = {{"ex2.f32", "MUFU.EX2", "MUFU.EX2.F16x2"},
               {"ldg.l1", "LDG.E.64.STRONG.SM", "LDG.E.64.STRONG.GPU"},
               {"ldg.l2", "LDG.E.64.STRONG.GPU", "LDG.E.64.STRONG.SM"},
               {"lds.32", "LDS", "LDS.64"},
               {"hfma2", "HFMA2", "HFMA2.BF16_V2"},
               {"hfma2.bf16", "HFMA2.BF16_V2", "HFMA2"},
               {"hfma2.bf16", "HFMA2.MMA.BF16_V2", "HFMA2.MMA"},
               {"redux", "REDUX.MAX", "REDUX.SUM"},
               {"wgmma.bf16.n64", "HGMMA.64x64x16.F32.BF16", "HGMMA.64x64x16.F32"},
               {"wgmma.e4m3.n64", "QGMMA.64x64x32.F32.E4M3.E4M3", "QGMMA.64x64x32.F32.E5M2.E5M2"},
               {"unpack.e4m3x2", "F2FP.F16.E4M3.UNPACK_B", "F2FP.F16.E5M2.UNPACK_B"}};
  const auto is_proved = [](const char* probe, const std::string& instruction) {
    std::vector<std::string> body{"WARPGROUP.ARRIVE", instruction + " R0, R0", "WARPGROUP.DEPBAR.LE gsb0, 0x0"};
    if (probe[0] != 'w') body = {body[1]};
    CudaModule module = planted(probe_named(probe), "k", 1, body);
    EXPECT_TRUE(prove(module, {}).ok());
    return module.kernels[0].proved();
  };
  for (const auto& p : cases) {
    EXPECT_TRUE(is_proved(p.probe, p.own)) << p.probe;
    EXPECT_FALSE(is_proved(p.probe, p.other)) << p.probe << " passed " << p.other;
  }
  // Two operations in one instruction's place: on sm_90 two MUFU do a pair.
  EXPECT_EQ(proof_in("ex2.f16x2", 1, {"MUFU.EX2.BF16 R0, R0", "MUFU.EX2.BF16 R0, R0"}),
            "expected 2 MUFU.EX2.F16, found 0 (MUFU x 2 instead)");
  // The products of fp8 are those of f16: what unpacks their operands tells them apart.
  std::vector<std::string> body(10, "F2FP.F16.E5M2.UNPACK_B R0, R0");
  body.insert(body.end(), 2, "HMMA.16816.F32 R0, R0, R4, R0");
  EXPECT_EQ(proof_in("mma.e4m3", 1, body), "2 HMMA.16816.F32, but 0 F2FP.F16.E4M3.UNPACK_B where 10 belong");
  EXPECT_EQ(proof_in("mma.e5m2", 1, body).rfind("2 HMMA.16816.F32 with 10 others", 0), 0u);
}

TEST(CudaProof, SaysWhatItCouldNotSee) {
  const std::vector<std::string> both{"HFMA2 R0, R0, R1, R2", "HFMA2.MMA R0, R0, R1, R2"};
  EXPECT_EQ(proof_in("hfma2", 2, both), "2 HFMA2 (1 of them HFMA2.MMA)");
  sass::Kernel empty;
  const auto by_map = prove(empty, {{"LDG.E.64", 1}}, /*by_map=*/true);
  EXPECT_TRUE(by_map[0].base_only);
  Proof proof;
  proof.opcode = "LDG.E.64";
  proof.expected = proof.found = 4;
  proof.base_only = true;
  EXPECT_EQ(to_string(proof), "4 LDG.E.64 (base opcode only)");
}

TEST(CudaProof, CatchesProductsThatTheCompilerSerialised) {
  const std::string product = "HGMMA.64x128x16.F32.BF16 R24, R88, gdesc[UR8], R24", arrive = "WARPGROUP.ARRIVE",
                    wait = "WARPGROUP.DEPBAR.LE gsb0, 0x0";
  EXPECT_EQ(proof_in("wgmma.bf16.n128.registers", 2, {arrive, product, product, wait}),
            "2 HGMMA.64x128x16.F32.BF16 with 2 others (WARPGROUP x 2)");
  EXPECT_EQ(proof_in("wgmma.bf16.n128.registers", 2, {arrive, product, wait, arrive, product, wait}),
            "2 HGMMA.64x128x16.F32.BF16, but 4 WARPGROUP where 2 belong");
}

TEST(CudaProbes, AreWrittenForEveryArchAndRefusedForOthers) {
  for (const std::string& arch : cuda_archs()) {
    CudaOptions options;
    options.arch = arch;
    const auto kernels = choose_kernels(options);
    ASSERT_TRUE(kernels.ok()) << kernels.error().message();
    const std::string ptx = ptx_of(arch, *kernels);
    EXPECT_THAT(ptx, HasSubstr(".target " + arch));
    for (const char* mark : {"{c}", "{m}", "{a}", "{n}", "{i}", "{y}"}) EXPECT_EQ(ptx.find(mark), std::string::npos);
    EXPECT_GT(kernels->size(), 400u);
    EXPECT_EQ(kernels->size() % 2, 0u);
  }
  CudaOptions options;
  options.arch = "sm_70";
  EXPECT_THAT(choose_kernels(options).error().message(), HasSubstr("sm_80 sm_90a sm_100a sm_103a"));
  options.arch = "sm_90a";
  options.only = "cvt.e2m1x2";  // from sm_100 on
  EXPECT_THAT(choose_kernels(options).error().message(), HasSubstr("ex2.f32"));
}

TEST(CudaProbes, LoseOnlyWhatTheCompilerRefuses) {
  const std::vector<CudaProbe> probes = {
      {.name = "lop3", .opcode = "LOP3", .ptx = "lop3.b32 {c}, {c}, {r}, {s}, 0x6a;"},
      {.name = "fnord", .opcode = "FNORD", .ptx = "fnord.b32 {c}, {c};"},
      {.name = "shf", .opcode = "SHF", .ptx = "shf.l.wrap.b32 {c}, {c}, {r}, {s};"}};
  CudaOptions options;
  options.probes = &probes;
  options.disassembler = "none";
  const auto module = build_cuda(options);
  if (!module.ok() && module.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << module.error().message();
  ASSERT_TRUE(module.ok()) << module.error().message();
  for (const CudaKernel& kernel : module->kernels) {
    const bool refused = kernel.probes[0]->name == "fnord" || kernel.probes.back()->name == "fnord";
    EXPECT_EQ(kernel.proved(), !refused) << kernel.name << " " << to_string(kernel.proofs[0]);
    EXPECT_EQ(to_string(kernel.proofs[0]).find("ptxas") != std::string::npos, refused);
  }
}

// Measuring, on a device whose instructions take what is written here: one a lane of `lanes` an SM, or a latency of 16.
struct Planted {
  const char* name;
  double lanes;
};
constexpr Planted kPlanted[] = {{"lop3", 64}, {"prmt", 64}, {"ffma", 128}, {"imad", 32}, {"hfma2", 128}, {"shf", 64}};
constexpr int kImad = 3;  // what goes wrong goes wrong here

const std::vector<CudaProbe>& planted_probes() {
  static const std::vector<CudaProbe> probes = [] {
    std::vector<CudaProbe> made;
    for (const Planted& p : kPlanted) made.push_back({.name = p.name, .opcode = p.name, .ptx = "", .most_chains = 4});
    return made;
  }();
  return probes;
}

CudaModule planted_module() {
  CudaOptions options;
  options.probes = &planted_probes();
  CudaModule module;
  module.arch = options.arch;
  module.ptxas = "0";
  module.names = "nobody";
  module.cubin = std::make_shared<const std::string>("");
  module.kernels = choose_kernels(options).value();
  for (CudaKernel& kernel : module.kernels) {
    for (const CudaProbe* probe : kernel.probes) {
      const int each = kernel.operations / static_cast<int>(kernel.probes.size());
      kernel.proofs.push_back({probe->opcode, each, each, 0, "", "", 0, 0});
    }
  }
  return module;
}

class PlantedDevice : public CudaDevice {
 public:
  /// `imad`: what the device does with that probe's kernels.
  explicit PlantedDevice(std::function<Result<double>(double cycles)> imad) : imad_(std::move(imad)) {}
  const CudaAbout& about() const override { return about_; }
  Result<void> load(const std::string&) override { return {}; }
  Result<double> cycles(const std::string& kernel, int threads, int iterations) override {
    int which = 0, chains = 0, operations = 0;
    if (std::sscanf(kernel.c_str(), "probe%d_c%d_n%d", &which, &chains, &operations) == 3) {
      // Few warps do not hide a loop's branch, and less of it where the loop is short: as the difference of two loops,
      // 128 threads are too fast.
      const double branch = threads == 128 ? 512.0 / operations : 0;
      const double one = std::max(16.0 / chains, threads / kPlanted[which].lanes),
                   all = 300 + iterations * (operations * one + branch);
      return which == kImad ? imad_(all) : Result<double>(all);
    }
    EXPECT_EQ(std::sscanf(kernel.c_str(), "pair%d_n%d", &which, &operations), 2);
    const auto lanes = [&](const std::string& name) {
      return std::find_if(std::begin(kPlanted), std::end(kPlanted), [&](const Planted& p) { return name == p.name; })
          ->lanes;
    };
    const auto& [a, b] = cuda_pairs()[static_cast<std::size_t>(which)];
    const double of_a = threads / lanes(a) / 2, of_b = threads / lanes(b) / 2, issue = threads / 128.0;
    const bool shared = lanes(a) == 64 && lanes(b) == 64;  // one unit does all that runs at 64
    return 300 + iterations * operations * std::max(issue, shared ? of_a + of_b : std::max(of_a, of_b));
  }

 private:
  CudaAbout about_{"a planted device", 90, 1};
  std::function<Result<double>(double)> imad_;
};

Result<Model> measured_with(const std::function<Result<double>(double cycles)>& imad, double deadline_s = 30) {
  CudaOptions options;
  options.deadline_s = deadline_s;
  return measure_cuda(planted_module(), options, [&]() -> Result<std::unique_ptr<CudaDevice>> {
    return std::unique_ptr<CudaDevice>(new PlantedDevice(imad));
  });
}

TEST(CudaMeasurement, FindsRatesLatenciesAndUnits) {
  const auto model = measured_with([](double cycles) { return cycles; });
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->device, "a planted device");
  for (const Planted& p : kPlanted) {
    const Entry* rate = model->find(p.name);
    ASSERT_NE(rate, nullptr);
    EXPECT_NEAR(rate->value.value(), p.lanes, 1e-9) << p.name;
    EXPECT_NEAR(model->find(std::string(p.name) + ".latency")->value.value(), 16, 1e-9) << p.name;
    EXPECT_EQ(rate->mark, "");
    EXPECT_EQ(rate->tools, "driver 1, names nobody, ptxas 0");
  }
  const auto group = [&](const char* name) { return model->find(name)->group; };
  EXPECT_EQ(group("lop3"), group("prmt"));
  EXPECT_EQ(group("lop3"), group("shf"));
  EXPECT_NE(group("lop3"), group("ffma"));
  EXPECT_NE(group("ffma"), group("hfma2"));  // two units, though a warp scheduler feeds one of them a cycle
  const auto pair = std::find_if(model->pairs.begin(), model->pairs.end(),
                                 [](const Overlap& p) { return p.first == "ffma" && p.second == "hfma2"; });
  ASSERT_NE(pair, model->pairs.end());
  EXPECT_NEAR(pair->overlap.value(), 1, 1e-9);
  EXPECT_NEAR(pair->most, 1, 1e-9);
  EXPECT_TRUE(parse_model(to_json(*model).dump(), "text").ok());
}

TEST(CudaMeasurement, GivesTheLatencyOfOneInstructionOrSaysOfWhich) {
  const std::vector<CudaProbe> probes = [] {
    std::vector<CudaProbe> made = planted_probes();
    made[0].per_op = made[0].chained = 2;  // two of one opcode: half of the chain's time
    made[2].also = "ffma.other";
    return made;
  }();
  CudaModule module = planted_module();
  for (CudaKernel& kernel : module.kernels) {
    for (std::size_t p = 0; p < kernel.probes.size(); ++p) {
      const auto which = static_cast<std::size_t>(kernel.probes[p] - planted_probes().data());
      kernel.probes[p] = &probes[which];
      if (which == 1 && kernel.probes.size() == 1) {
        kernel.proofs[p].others = kernel.operations;
        kernel.proofs[p].instead = fmt::format("FADD x {}", kernel.operations);
      }
      if (which == 2) {
        kernel.proofs[p].also = "ffma.other";
        kernel.proofs[p].of_also = kernel.operations / 2;
      }
    }
  }
  const auto model = measure_cuda(module, {}, []() -> Result<std::unique_ptr<CudaDevice>> {
    return std::unique_ptr<CudaDevice>(new PlantedDevice([](double cycles) { return cycles; }));
  });
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_NEAR(model->find("lop3.latency")->value.value(), 8, 1e-9);
  EXPECT_NEAR(model->find("prmt.latency")->value.value(), 16, 1e-9);
  EXPECT_THAT(model->find("prmt.latency")->proof, HasSubstr("of the whole chain, with FADD x 32"));
  EXPECT_THAT(model->find("ffma.latency")->proof, HasSubstr("the mean of a chain of ffma and ffma.other"));
  for (const Overlap& pair : model->pairs) {
    if (pair.first == "ffma" || pair.second == "ffma") {
      EXPECT_THAT(pair.mark, HasSubstr("decides nothing"));
    }
  }
  EXPECT_EQ(model->find("shf.latency")->proof.find("chain"), std::string::npos);
}

// One probe is lost with its pairs, and says why; all others are as they were.
void expect_only_imad_lost(const Result<Model>& model, const std::string& why) {
  ASSERT_TRUE(model.ok()) << model.error().message();
  for (const Planted& p : kPlanted) {
    const Entry* entry = model->find(p.name);
    ASSERT_NE(entry, nullptr) << p.name;
    EXPECT_EQ(entry->value.has_value(), std::string(p.name) != "imad") << p.name;
  }
  EXPECT_THAT(model->find("imad")->mark, HasSubstr(why));
  EXPECT_THAT(model->find("imad.latency")->mark, HasSubstr(why));
  for (const Overlap& pair : model->pairs) {
    const bool lost = pair.first == "imad" || pair.second == "imad";
    EXPECT_EQ(pair.overlap.has_value(), !lost) << pair.first << " + " << pair.second;
    EXPECT_EQ(pair.mark.empty(), !lost);
  }
  EXPECT_TRUE(parse_model(to_json(*model).dump(), "text").ok());
}

TEST(CudaMeasurement, LosesOnlyTheProbeThatTheDeviceBreaksOff) {
  expect_only_imad_lost(measured_with([](double) -> Result<double> {
                          return Error{ErrorCode::kDevice, "an illegal address was met (700)", "imad"};
                        }),
                        "an illegal address was met (700)");
}

TEST(CudaMeasurement, LosesOnlyTheProbeThatKillsItsProcess) {
  expect_only_imad_lost(measured_with([](double cycles) -> Result<double> {
                          ::raise(SIGKILL);
                          return cycles;
                        }),
                        "killed by SIGKILL");
}

TEST(CudaMeasurement, LosesOnlyTheProbeThatNeverEnds) {
  expect_only_imad_lost(measured_with(
                            [](double) -> Result<double> {
                              for (;;) ::pause();
                            },
                            1),
                        "no end after 1 s");
}

TEST(CudaMeasurement, LosesOnlyTheProbeWhoseClockStandsStill) {
  expect_only_imad_lost(measured_with([](double) { return 300.0; }), "the clock is not to be trusted");
}

TEST(CudaMeasurement, MarksADeviceThatIsSharedOrThrottled) {
  int calls = 0;
  const auto model = measured_with([&](double cycles) { return ++calls / 2 % 2 == 0 ? cycles : 1.2 * cycles; });
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_TRUE(model->find("imad")->value.has_value());
  EXPECT_GT(model->find("imad")->spread, kMaxSpread);
  EXPECT_THAT(model->find("imad")->mark, HasSubstr("shared or throttled"));
  EXPECT_EQ(model->find("ffma")->mark, "");
}

TEST(CudaMeasurement, RunsNothingThatIsNotProved) {
  CudaModule module = planted_module();
  for (CudaKernel& kernel : module.kernels) {
    if (kernel.probes[0]->name == "imad") kernel.proofs[0].found = 1;
  }
  const auto model = measure_cuda(module, {}, []() -> Result<std::unique_ptr<CudaDevice>> {
    return std::unique_ptr<CudaDevice>(new PlantedDevice([](double) -> Result<double> {
      ADD_FAILURE() << "it was run";
      return 1.0;
    }));
  });
  expect_only_imad_lost(model, "not proved");
  EXPECT_FALSE(model->find("imad")->proved);
  EXPECT_THAT(model->find("imad")->proof, HasSubstr("found 1"));
}

TEST(CudaMeasurement, NeedsTheDeviceThatTheProbesAreFor) {
  CudaModule module = planted_module();
  module.arch = "sm_103a";
  const auto other = measure_cuda(module, {}, []() -> Result<std::unique_ptr<CudaDevice>> {
    return std::unique_ptr<CudaDevice>(new PlantedDevice([](double cycles) { return cycles; }));
  });
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(other.error().message(), HasSubstr("is an sm_90, the probes are for sm_103a"));
  const auto none = measure_cuda(module, {}, []() -> Result<std::unique_ptr<CudaDevice>> {
    return Error{ErrorCode::kUnsupported, "no driver", ""};
  });
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace pinch::probe
