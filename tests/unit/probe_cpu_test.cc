// CPU probes: every loop proved by its own bytes, planted faults caught.
#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "workbench/probe/cpu_probe.h"

namespace pinch::probe {
namespace {

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

}  // namespace
}  // namespace pinch::probe
