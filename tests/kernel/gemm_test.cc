// Every tactic of every instruction set that this machine has, against FP64.
#include <gtest/gtest.h>

#include <set>

#include "tests/kernel/gemm_cases.h"

namespace pinch {
namespace {

using namespace test;  // NOLINT

std::vector<CpuTactic> usable_tactics() {
  std::vector<CpuTactic> usable;
  for (const CpuTactic& t : cpu_tactics()) {
    const GemmProblem large{1024, 1024, 65536, Fp4Format::kNvfp4, OutputType::kBf16};
    Resources resources;
    resources.threads = 2;
    if (!illegal(t, large, resources)) usable.push_back(t);
  }
  return usable;
}

struct Shape {
  std::int64_t m, n, k;
  Fp4Format format;
  std::int64_t lda_gap = 0, ldo_gap = 0;
};
constexpr Fp4Format kNv = Fp4Format::kNvfp4, kMx = Fp4Format::kMxfp4;
// Below, at and above every tile; tails in every dimension; several panels of k and blocks of rows; rows apart.
constexpr Shape kShapes[] = {
    {1, 1, 16, kNv},
    {1, 1, 32, kMx},
    {2, 15, 48, kNv, 3, 1},
    {3, 17, 96, kMx, 1, 5},
    {5, 33, 80, kNv, 8, 2},
    {7, 64, 128, kMx},
    {8, 100, 1040, kNv},
    {13, 65, 544, kMx, 0, 3},
    {31, 47, 272, kNv},
    {75, 130, 4640, kMx, 5, 0},
    {129, 79, 608, kNv, 16, 1},
};

std::string describe(const Shape& s, const std::string& tactic) {
  return tactic + " m=" + std::to_string(s.m) + " n=" + std::to_string(s.n) + " k=" + std::to_string(s.k) + " " +
         std::string(to_string(s.format));
}

TEST(Gemm, EveryTacticMatchesFp64OnOddShapes) {
  std::set<std::string> ran;
  for (const Shape& s : kShapes) {
    const Fp4Matrix w = random_weights(s.format, s.n, s.k, 1);
    const auto a = random_activations(s.m, s.k + s.lda_gap, 2);
    const Expected expected = expect(w.view(), a, s.k + s.lda_gap, s.m);
    const auto weights = prepare_weights(w.view());
    ASSERT_TRUE(weights.ok());
    for (const CpuTactic& t : usable_tactics()) {
      for (const OutputType type : {OutputType::kF32, OutputType::kBf16}) {
        const GemmProblem problem{s.m, s.n, s.k, s.format, type};
        Resources resources;
        resources.threads = 2;
        if (illegal(t, problem, resources)) continue;
        const auto r = run_poisoned(*weights, a, s.k + s.lda_gap, s.m, {to_string(t), 2, type}, s.n + s.ldo_gap);
        ASSERT_TRUE(r.ok()) << describe(s, to_string(t)) << ": " << r.error().message();
        EXPECT_TRUE(r->intact) << describe(s, to_string(t));
        EXPECT_LE(worst_error(expected, r->out.data(), s.n, type), 1.0) << describe(s, to_string(t));
        ran.insert(to_string(t));
      }
    }
  }
  EXPECT_EQ(ran.size(), usable_tactics().size()) << "a tactic was legal for none of the shapes";
}

}  // namespace
}  // namespace pinch
