#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/gemm_bf16_fp4/cpu/run.h"
#include "kernels/gemm_bf16_fp4/tactic.h"
#include "pinch/machine.h"

namespace pinch {
namespace {

using testing::StartsWith;

Resources two_threads() {
  Resources r;
  r.threads = 2;
  return r;
}

TEST(CpuTactics, NamesAreUniqueAndParseBack) {
  const TacticFamily& family = cpu_tactic_family();
  std::set<std::string> names;
  for (std::size_t i = 0; i < family.size(); ++i) {
    EXPECT_TRUE(names.insert(family.to_string(i)).second) << family.to_string(i);
    EXPECT_EQ(parse_tactic(family, family.to_string(i)).value(), i);
  }
}

TEST(CpuTactics, EveryTacticHasItsKernels) {
  for (const CpuTactic& t : cpu_tactics()) {
    const detail::KernelSet set = detail::find_kernels(t);
    EXPECT_NE(set.pack, nullptr) << to_string(t);
    EXPECT_NE(set.store, nullptr) << to_string(t);
    EXPECT_EQ(set.stream != nullptr, t.path == GemmPath::kStream) << to_string(t);
    EXPECT_EQ(set.panel != nullptr, t.path == GemmPath::kPanel) << to_string(t);
  }
}

// Of a CPU with every instruction set: what this one lacks, or PINCH_CPU leaves alone, is not the list's fault.
TEST(CpuTactics, ATypicalProblemHasAtLeastFortyLegalOnes) {
  const CpuIsa runs_here = cpu_choice()->isa;
  for (const std::int64_t m : {1, 8, 32, 512}) {
    const auto legal_where_it_runs = [&](CpuTactic t) {
      t.isa = runs_here;
      return !illegal(t, {m, 4096, 4096, Fp4Format::kNvfp4, OutputType::kBf16}, two_threads());
    };
    EXPECT_GE(std::ranges::count_if(cpu_tactics(), legal_where_it_runs), 40) << "m=" << m;
  }
}

TEST(CpuTactics, RefusalsNameTheirAxis) {
  const GemmProblem problem{8, 64, 64, Fp4Format::kMxfp4, OutputType::kBf16};
  CpuTactic t;
  EXPECT_EQ(illegal(t, problem, two_threads()), cpu_choice()->allows(t.isa) ? std::nullopt : illegal(t, problem, {}));
  if (!cpu_choice()->allows(CpuIsa::kScalar)) GTEST_SKIP() << "PINCH_CPU leaves another instruction set";
  const auto reason = [&](const CpuTactic& tactic, const GemmProblem& p, const Resources& r) {
    return illegal(tactic, p, r).value_or("legal");
  };
  GemmProblem odd = problem;
  odd.k = 48;
  EXPECT_THAT(reason(t, odd, two_threads()), StartsWith("k: 48"));
  odd.format = Fp4Format::kNvfp4;
  EXPECT_EQ(reason(t, odd, two_threads()), "legal");

  CpuTactic one = t;
  one.workers = Workers::kOne;
  Resources single;
  single.threads = 1;
  EXPECT_THAT(reason(one, problem, single), StartsWith("threads:"));
  EXPECT_EQ(reason(one, problem, two_threads()), "legal");

  CpuTactic raster{GemmPath::kStream, CpuIsa::kScalar, 4, 16, 0, Raster::kAlongN, Workers::kAll};
  EXPECT_EQ(reason(raster, problem, two_threads()), "legal");
  GemmProblem few = problem;
  few.m = 4;
  EXPECT_THAT(reason(raster, few, two_threads()), StartsWith("raster:"));

  const CpuTactic deep{GemmPath::kPanel, CpuIsa::kScalar, 4, 16, 512, Raster::kAlongM, Workers::kAll};
  EXPECT_THAT(reason(deep, problem, two_threads()), StartsWith("k_block:"));
}

TEST(CpuTactics, PanelsBeyondOneMiBAreRefused) {
  const GemmProblem large{512, 4096, 65536, Fp4Format::kNvfp4, OutputType::kBf16};
  for (const CpuTactic& t : cpu_tactics()) {
    if (!cpu_choice()->allows(t.isa)) continue;
    const bool too_large = t.isa == CpuIsa::kAmxBf16 && t.tile_n == 512 && t.k_block == 2048;
    EXPECT_EQ(refusal(t, large, two_threads()) == Refusal::kPanel, too_large) << to_string(t);
  }
}

TEST(CpuTactics, AnInstructionSetTheMachineLacksIsRefused) {
  for (const CpuTactic& t : cpu_tactics()) {
    if (cpu_choice()->allows(t.isa)) continue;
    EXPECT_THAT(illegal(t, {8, 64, 64, Fp4Format::kMxfp4, OutputType::kBf16}, two_threads()).value_or("legal"),
                StartsWith("isa:"));
  }
}

// The workspace bound of gemm.h over shapes far larger than any test runs.
TEST(CpuTactics, WorkspaceStaysBelow64MiB) {
  for (const CpuTactic& t : cpu_tactics()) {
    if (t.tile_n == 512 && t.k_block == 2048) continue;  // refused for its panel of 2 MiB
    for (const std::int64_t m : {1, 33, 4096, 1 << 20}) {
      for (const std::int64_t k : {64, 4096, 65536, 1 << 18}) {
        for (const int threads : {1, 2, 32}) {
          const auto layout = detail::plan_run(t, {m, 65536, k, Fp4Format::kNvfp4, OutputType::kBf16}, threads);
          EXPECT_LE(layout.workspace_bytes, std::size_t{64} << 20) << to_string(t) << " m=" << m << " k=" << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pinch
