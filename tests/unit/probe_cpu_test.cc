// CPU probes: every loop proved by its own bytes, planted faults caught.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workbench/probe/cpu_probe.h"

namespace pinch::probe {
namespace {

using testing::HasSubstr;

constexpr int kLength = 48;

Proof proof_of(const Part& made, int length, const Part& claimed, int expected) {
  const auto loop = CpuLoop::assemble({&made, 1}, length);
  EXPECT_TRUE(loop.ok()) << (loop.ok() ? "" : loop.error().message());
  return loop.ok() ? prove(loop->bytes(), claimed, expected) : Proof{};
}

TEST(CpuProof, HoldsForEveryProbeAtEveryNumberOfChains) {
  for (const CpuProbe& probe : cpu_probes()) {
    const bool chases = probe.operation.form == Form::kChase;
    for (const int chains : {1, 2, 4, 8, most_chains(probe.operation.bits)}) {
      if (chases && chains > 1) continue;
      for (const int length : {kLength, 2 * kLength}) {
        const Part part{probe.operation, chains};
        const Proof proof = proof_of(part, length, part, length);
        EXPECT_TRUE(proof.proved()) << probe.name << ", " << chains << " chains: " << to_string(proof);
        EXPECT_EQ(proof.others, 0) << probe.name << ": " << proof.instead;
      }
    }
  }
}

const CpuOperation& operation_named(const std::string& name) {
  return std::find_if(cpu_probes().begin(), cpu_probes().end(), [&](const CpuProbe& p) { return p.name == name; })
      ->operation;
}

TEST(CpuProof, HoldsForBothOfEveryPair) {
  EXPECT_GE(cpu_pairs().size(), 9u);
  for (const auto& [a, b] : cpu_pairs()) {
    const auto loops = assemble_loops({{operation_named(a), 6}, {operation_named(b), 4}}, kLength);
    ASSERT_TRUE(loops.ok()) << a << " + " << b << ": " << loops.error().message();
    ASSERT_EQ(loops->proofs.size(), 2u);
    EXPECT_TRUE(loops->proved()) << to_string(loops->proofs[0]) << ", " << to_string(loops->proofs[1]);
    EXPECT_EQ(loops->proofs[0].found, kLength / 2);
    EXPECT_EQ(loops->proofs[1].found, kLength / 2);
  }
}

constexpr CpuOperation kAdd{"vaddps", Form::kBinary, 256};

TEST(CpuProof, CatchesAnotherOpcode) {
  const Proof proof = proof_of({kAdd, 4}, kLength, {{"vfmadd231ps", Form::kAccumulate, 256}, 4}, kLength);
  EXPECT_FALSE(proof.proved());
  EXPECT_EQ(proof.found, 0);
  EXPECT_EQ(to_string(proof), "expected 48 vfmadd231ps of 256 bits, found 0 (vaddps x 48 instead)");
}

TEST(CpuProof, CatchesAWrongCount) {
  EXPECT_FALSE(proof_of({kAdd, 2}, kLength, {kAdd, 2}, kLength + 1).proved());
  EXPECT_FALSE(proof_of({kAdd, 2}, kLength, {kAdd, 2}, kLength - 1).proved());
}

TEST(CpuProof, CatchesAnotherWidth) {
  EXPECT_EQ(to_string(proof_of({kAdd, 2}, kLength, {{"vaddps", Form::kBinary, 512}, 2}, kLength)),
            "expected 48 vaddps of 512 bits, found 0 (vaddps of 256 bits x 48 instead)");
  EXPECT_FALSE(proof_of({{"vaddps", Form::kBinary, 512}, 2}, kLength, {kAdd, 2}, kLength).proved());
  EXPECT_FALSE(proof_of({{"vmovups", Form::kLoad, 256}, 2}, 4, {{"vmovups", Form::kLoad, 512}, 2}, 4).proved());
}

TEST(CpuProof, CatchesALoadThatIsAStore) {
  const Part load{{"vmovups", Form::kLoad, 256}, 2}, store{{"vmovups", Form::kStore, 256}, 2};
  EXPECT_EQ(to_string(proof_of(load, 4, store, 4)),
            "expected 4 vmovups store of 256 bits, found 0 (vmovups load of 256 bits x 4 instead)");
  EXPECT_EQ(to_string(proof_of(store, 4, load, 4)),
            "expected 4 vmovups load of 256 bits, found 0 (vmovups store of 256 bits x 4 instead)");
}

TEST(CpuProof, CatchesAnotherNumberOfChains) {
  EXPECT_EQ(to_string(proof_of({kAdd, 4}, kLength, {kAdd, 1}, kLength)),
            "48 vaddps of 256 bits, but 4 chains where 1 belong");
}

// A loop of `body` that `dec rsi` counts.
Proof proof_in(std::vector<std::uint8_t> body, const Part& claimed, int expected) {
  const auto back = static_cast<std::uint8_t>(-static_cast<int>(body.size() + 5));
  for (const int byte : {0x48, 0xff, 0xce, 0x75, static_cast<int>(back), 0xc3})
    body.push_back(static_cast<std::uint8_t>(byte));
  return prove(body, claimed, expected);
}

TEST(CpuProof, CatchesChainsThatAreNone) {
  const Part two{kAdd, 2};
  // vaddps ymm0, ymm0, ymm2; vaddps ymm1, ymm1, ymm2
  EXPECT_TRUE(proof_in({0xc5, 0xfc, 0x58, 0xc2, 0xc5, 0xf4, 0x58, 0xca}, two, 2).proved());
  // vaddps ymm0, ymm0, ymm1; vaddps ymm1, ymm1, ymm0: each waits for the other
  EXPECT_EQ(to_string(proof_in({0xc5, 0xfc, 0x58, 0xc1, 0xc5, 0xf4, 0x58, 0xc8}, two, 2)),
            "2 vaddps of 256 bits, but 0 chains that wait for no other where 2 belong");
  // vaddps ymm0, ymm1, ymm1: what it writes is not fed back
  EXPECT_FALSE(proof_in({0xc5, 0xf4, 0x58, 0xc1}, {kAdd, 1}, 1).proved());
}

TEST(CpuProof, CatchesAMaskAndABroadcast) {
  const Part one{{"vaddps", Form::kBinary, 512}, 1}, load{{"vaddps", Form::kLoad, 512}, 1};
  EXPECT_TRUE(proof_in({0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1}, one, 1).proved());    // vaddps zmm0, zmm0, zmm1
  EXPECT_FALSE(proof_in({0x62, 0xf1, 0x7c, 0x49, 0x58, 0xc1}, one, 1).proved());   // vaddps zmm0 {k1}, zmm0, zmm1
  EXPECT_TRUE(proof_in({0x62, 0xf1, 0x7c, 0x48, 0x58, 0x02}, load, 1).proved());   // vaddps zmm0, zmm0, [rdx]
  EXPECT_FALSE(proof_in({0x62, 0xf1, 0x7c, 0x58, 0x58, 0x02}, load, 1).proved());  // the same of one float for all
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
  const Part sixteen{{"add", Form::kShift, 32}, 1};
  EXPECT_FALSE(prove({reinterpret_cast<const std::uint8_t*>(&folded), kEnough}, sixteen, 16).proved());
}

TEST(CpuProof, SurvivesBytesThatAreNoCode) {
  std::array<std::uint8_t, 64> noise{};
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::uint8_t>(i * 37 + 6);
  EXPECT_FALSE(prove(noise, {kAdd, 1}, 1).proved());
  EXPECT_FALSE(prove({}, {kAdd, 1}, 1).proved());
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

CpuOptions of_256_bits(const std::string& only) {
  CpuOptions options;
  options.only = only;
  options.quick = true;
  return options;
}

// Whichever of the loops that are timed is another than what was asked for, its probe and its pair have no figure.
TEST(CpuProbe, DecodesEveryLoopThatIsTimed) {
  if (__builtin_cpu_supports("fma") == 0) GTEST_SKIP() << "no FMA";
  measure::SystemClock clock;
  CpuOptions options = of_256_bits("^(fma|mul)\\.256$");
  int made = 0, wrong = -1, timed = 0;
  options.assemble = [&](std::span<const Part> parts, int length) {
    std::vector<Part> planted(parts.begin(), parts.end());
    if (made++ == wrong) planted.back().operation = {"vmaxps", Form::kBinary, 256};
    return CpuLoop::assemble(planted, length);
  };
  options.time = [&](const CpuLoops& loops, void*, int, measure::Clock&) -> Result<Cycles> {
    ++timed;
    EXPECT_TRUE(loops.proved());
    return Cycles{1, 0};
  };
  const auto figures = [&] {
    made = timed = 0;
    const auto model = measure_cpu(options, clock);
    EXPECT_TRUE(model.ok()) << model.error().message();
    int count = 0;
    for (const Entry& entry : model->entries) {
      count += !entry.opcode.empty() && entry.value.has_value();
      if (!entry.opcode.empty() && !entry.value) {
        EXPECT_FALSE(entry.proved);
        EXPECT_EQ(entry.mark, "not proved, so not run");
        EXPECT_THAT(entry.proof, HasSubstr("vmaxps"));
      }
    }
    EXPECT_EQ(model->pairs.size(), 1u);
    for (const Overlap& pair : model->pairs) {
      count += pair.overlap.has_value();
      EXPECT_EQ(pair.overlap.has_value(), pair.proved);
      EXPECT_EQ(pair.mark, pair.proved ? "" : "not proved, so not run");
    }
    return count;
  };
  EXPECT_EQ(figures(), 5);  // two rates, two latencies and an overlap
  const int loops = made;
  EXPECT_EQ(loops, 2 * timed);
  EXPECT_EQ(loops, 2 * 2 * 5 + 2 * 5);
  for (wrong = 0; wrong < loops; ++wrong) EXPECT_EQ(figures(), wrong < 2 * 2 * 5 ? 3 : 4) << wrong;
}

TEST(CpuProbe, DecodesTheLoopsThatReadMemory) {
  if (__builtin_cpu_supports("avx2") == 0) GTEST_SKIP() << "no AVX2";
  measure::SystemClock clock;
  CpuOptions options = of_256_bits("");
  options.pairs = false;
  options.time = [](const CpuLoops&, void*, int, measure::Clock&) -> Result<Cycles> { return Cycles{1, 0}; };
  options.assemble = [](std::span<const Part> parts, int length) {
    Part planted = parts[0];  // a store in the place of a load, a load too few
    if (planted.operation.form == Form::kStream) planted.operation.form = Form::kStore;
    return CpuLoop::assemble({&planted, 1}, planted.operation.form == Form::kChase ? length - 1 : length);
  };
  const auto model = measure_cpu(options, clock);
  ASSERT_TRUE(model.ok()) << model.error().message();
  int lost = 0;
  for (const Entry& entry : model->entries) {
    const bool reads = entry.name.starts_with("read.") || entry.name == "load.64.latency";
    if (entry.opcode.empty()) continue;
    EXPECT_EQ(entry.value.has_value(), !reads) << entry.name;
    EXPECT_EQ(entry.mark, reads ? "not proved, so not run" : "") << entry.name;
    lost += reads;
  }
  EXPECT_EQ(lost, 5);  // two levels by two, and the load
}

// A core whose fma and mul share a unit that shufb does not need; all of two a cycle.
Result<Cycles> planted_core(const CpuLoops& loops, void*, int, measure::Clock&) {
  double of_fma = 0, of_shuffle = 0, waits = 0;
  for (const Part& part : loops.parts) {
    const bool shuffles = std::string(part.operation.mnemonic) == "vpshufb";
    (shuffles ? of_shuffle : of_fma) += 0.5;
    waits = std::max(waits, (shuffles ? 1.0 : 4.0) / part.chains);
  }
  return Cycles{std::max({of_fma, of_shuffle, waits}) / static_cast<double>(loops.parts.size()), 0.01};
}

TEST(CpuProbe, FindsRatesLatenciesAndUnits) {
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0) GTEST_SKIP() << "no AVX2 or no FMA";
  measure::SystemClock clock;
  CpuOptions options = of_256_bits("^(fma|mul|shufb)\\.256$");
  options.time = planted_core;
  const auto model = measure_cpu(options, clock);
  ASSERT_TRUE(model.ok()) << model.error().message();
  for (const auto& [name, value] : {std::pair("fma.256", 2.0),
                                    {"fma.256.latency", 4.0},
                                    {"mul.256", 2.0},
                                    {"mul.256.latency", 4.0},
                                    {"shufb.256", 2.0},
                                    {"shufb.256.latency", 1.0}})
    EXPECT_NEAR(model->find(name)->value.value(), value, 1e-9) << name;
  EXPECT_THAT(model->find("fma.256")->method, HasSubstr("; 8 chains"));
  EXPECT_EQ(model->find("fma.256")->proof, "48 vfmadd231ps of 256 bits");
  const auto pair = [&](const std::string& a, const std::string& b) {
    return *std::find_if(model->pairs.begin(), model->pairs.end(),
                         [&](const Overlap& p) { return p.first == a && p.second == b; });
  };
  EXPECT_NEAR(pair("fma.256", "mul.256").overlap.value(), 1, 1e-9);
  // Six chains of latency 4 do not fill a unit of two a cycle: only eight of the twelve show that there are two units.
  EXPECT_NEAR(pair("fma.256", "shufb.256").overlap.value(), 2, 1e-9);
  EXPECT_NEAR(pair("fma.256", "shufb.256").most, 2, 1e-9);
  EXPECT_EQ(model->find("fma.256")->group, model->find("mul.256")->group);
  EXPECT_NE(model->find("fma.256")->group, model->find("shufb.256")->group);
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

}  // namespace
}  // namespace pinch::probe
