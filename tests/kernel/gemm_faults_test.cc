// Bad arguments are named; infinities and NaNs land where they should; and the checker of these tests sees planted
// faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "pinch/families.h"
#include "tests/kernel/gemm_cases.h"

namespace {
std::atomic<int> allocations{0};
}

// Counts what C++ code of this program allocates. Not inlined: gcc would see free() of what it knows came from new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace pinch {
namespace {

using namespace test;  // NOLINT
using testing::HasSubstr;

constexpr Fp4Format kNv = Fp4Format::kNvfp4, kMx = Fp4Format::kMxfp4;

class GemmArguments : public testing::Test {
 protected:
  static constexpr std::int64_t kM = 3, kN = 20, kK = 64;
  GemmArguments()
      : matrix_(random_weights(kNv, kN, kK, 1)),
        weights_(std::move(prepare_weights(matrix_.view())).value()),
        a_(random_activations(kM, kK, 2)),
        out_(static_cast<std::size_t>(kM * kN)) {}

  // A run with one argument changed must fail and say which.
  void expect_refused(const Bf16* a, std::int64_t lda, void* out, std::int64_t ldo, std::string_view name) {
    const auto plan = plan_gemm(weights_, kM);
    ASSERT_TRUE(plan.ok());
    Guarded workspace(plan->workspace_bytes());
    const auto r = run_gemm(*plan, a, lda, out, ldo, {workspace.data(), plan->workspace_bytes()});
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(r.error().where, name);
  }

  Fp4Matrix matrix_;
  PreparedWeights weights_;
  std::vector<Bf16> a_, out_;
};

TEST_F(GemmArguments, NullAndOverlappingOperandsAreNamed) {
  expect_refused(nullptr, kK, out_.data(), kN, "a");
  expect_refused(a_.data(), kK, nullptr, kN, "out");
  expect_refused(a_.data(), kK - 1, out_.data(), kN, "lda");
  expect_refused(a_.data(), kK, out_.data(), kN - 1, "ldo");
}

TEST_F(GemmArguments, SmallOrMisalignedWorkspaceIsNamed) {
  const auto plan = plan_gemm(weights_, kM);
  ASSERT_TRUE(plan.ok());
  ASSERT_GT(plan->workspace_bytes(), 0U);
  Guarded workspace(plan->workspace_bytes() + 1);
  const auto small = run_gemm(*plan, a_.data(), kK, out_.data(), kN, {workspace.data(), plan->workspace_bytes() - 1});
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.error().where, "workspace");
  const auto crooked = run_gemm(*plan, a_.data(), kK, out_.data(), kN, {workspace.data() + 1, plan->workspace_bytes()});
  ASSERT_FALSE(crooked.ok());
  EXPECT_THAT(crooked.error().message(), HasSubstr("64 bytes"));
}

TEST_F(GemmArguments, RowsBelowOneAndBeyondTheLargestAreRefused) {
  for (const std::int64_t m : {std::int64_t{0}, std::int64_t{-4}, std::numeric_limits<std::int64_t>::max()}) {
    const auto plan = plan_gemm(weights_, m);
    ASSERT_FALSE(plan.ok()) << m;
    EXPECT_EQ(plan.error().where, "m");
  }
  EXPECT_FALSE(plan_gemm(weights_, 1, {"", -1, OutputType::kBf16}).ok());
}

TEST_F(GemmArguments, UnknownTacticOffersNearestNames) {
  const auto plan = plan_gemm(weights_, kM, {"stream.scalar.1x61.along_m.all", 2, OutputType::kBf16});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(plan.error().message(), HasSubstr("stream.scalar.1x16.along_m.all"));
}

TEST_F(GemmArguments, IllegalTacticGivesItsReason) {
  const auto plan = plan_gemm(weights_, kM, {"stream.scalar.4x16.along_n.all", 2, OutputType::kBf16});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kIllegal);
  EXPECT_THAT(plan.error().message(), HasSubstr(cpu_choice()->allows(CpuIsa::kScalar) ? "raster:" : "isa:"));
}

TEST_F(GemmArguments, WeightsWithANanScaleAreRefused) {
  matrix_.scales[5] = 0x7f;
  EXPECT_FALSE(prepare_weights(matrix_.view()).ok());
}

TEST_F(GemmArguments, ARunAllocatesNothing) {
  const auto plan = plan_gemm(weights_, kM);
  ASSERT_TRUE(plan.ok());
  Guarded workspace(plan->workspace_bytes());
  const int before = allocations;
  EXPECT_TRUE(run_gemm(*plan, a_.data(), kK, out_.data(), kN, {workspace.data(), plan->workspace_bytes()}).ok());
  EXPECT_EQ(allocations, before);
  const auto counted = std::make_unique<int>(1);
  EXPECT_GT(allocations, before) << "the counter does not count";
}

TEST_F(GemmArguments, ConvenienceFormGivesThePlannedResult) {
  const auto planned = run_poisoned(weights_, a_, kK, kM, {}, kN);
  ASSERT_TRUE(planned.ok());
  ASSERT_TRUE(mm_bf16_fp4(weights_, a_.data(), kK, kM, out_.data(), kN).ok());
  for (std::size_t i = 0; i < out_.size(); ++i) EXPECT_EQ(to_f32(out_[i]), planned->out[i]);
}

// Every tactic on this problem, as its name and FP32 result.
template <class Check>
void for_each_tactic(const Fp4Matrix& w, const std::vector<Bf16>& a, std::int64_t m, Check check) {
  const auto weights = prepare_weights(w.view());
  ASSERT_TRUE(weights.ok());
  for (const CpuTactic& t : cpu_tactics()) {
    Resources resources;
    resources.threads = 2;
    if (illegal(t, {m, w.n, w.k, w.format, OutputType::kF32}, resources)) continue;
    const auto r = run_poisoned(*weights, a, w.k, m, {to_string(t), 2, OutputType::kF32}, w.n);
    ASSERT_TRUE(r.ok()) << r.error().message();
    check(to_string(t), r->out);
  }
}

TEST(GemmFaults, InfinitiesAndNansStayInTheirRows) {
  const std::int64_t m = 14, n = 66, k = 208;
  const Fp4Matrix w = random_weights(kNv, n, k, 3);
  auto a = random_activations(m, k, 4);
  const float inf = std::numeric_limits<float>::infinity();
  a[2 * k + 17] = to_bf16(inf);
  a[5 * k + 100] = to_bf16(-inf);
  a[5 * k + 101] = to_bf16(inf);
  a[11 * k + k - 1] = to_bf16(std::numeric_limits<float>::quiet_NaN());
  const Expected expected = expect(w.view(), a, k, m);
  for_each_tactic(w, a, m, [&](const std::string& tactic, const std::vector<float>& out) {
    EXPECT_LE(worst_error(expected, out.data(), n, OutputType::kF32), 1.0) << tactic;
  });
}

TEST(GemmFaults, ExtremeScalesAreExact) {
  const std::int64_t m = 2, n = 19, k = 64;
  Fp4Matrix w = random_weights(kMx, n, k, 5);
  std::mt19937 bits(6);
  // Down to where the products of this test's activations are still normal numbers.
  for (auto& scale : w.scales) scale = static_cast<std::uint8_t>(bits() % 2 != 0 ? 30 + bits() % 4 : 252 - bits() % 4);
  auto a = random_activations(m, k, 7);
  for (Bf16& x : a) x = to_bf16(to_f32(x) * 0x1p-10F);
  const Expected expected = expect(w.view(), a, k, m);
  for_each_tactic(w, a, m, [&](const std::string& tactic, const std::vector<float>& out) {
    EXPECT_LE(worst_error(expected, out.data(), n, OutputType::kF32), 1.0) << tactic;
  });
}

// The checker must see the least change of one weight, one scale or one activation, and a result left out.
TEST(GemmFaults, TheCheckerSeesPlantedFaults) {
  const std::int64_t m = 2, n = 33, k = 256;
  const Fp4Matrix w = random_weights(kNv, n, k, 8);
  const auto a = random_activations(m, k, 9);
  const Expected expected = expect(w.view(), a, k, m);
  const auto error_of = [&](const Fp4Matrix& weights, const std::vector<Bf16>& activations) {
    const auto prepared = prepare_weights(weights.view());
    const auto r = run_poisoned(*prepared, activations, k, m, {"", 1, OutputType::kF32}, n);
    return worst_error(expected, r->out.data(), n, OutputType::kF32);
  };
  EXPECT_LE(error_of(w, a), 1.0);

  // The group of the largest scale, so that the fault is not below the sums' own rounding.
  const auto largest = static_cast<std::size_t>(std::max_element(w.scales.begin(), w.scales.end()) - w.scales.begin());
  Fp4Matrix code = w;
  code.codes[largest * 8 + 3] ^= 0x08;  // a sign
  EXPECT_GT(error_of(code, a), 1.0);
  Fp4Matrix scale = w;
  scale.scales[largest] -= 1;
  EXPECT_GT(error_of(scale, a), 1.0);
  Fp4Matrix swapped = w;  // two channels in each other's place
  std::swap_ranges(swapped.codes.begin(), swapped.codes.begin() + k / 2, swapped.codes.begin() + k / 2);
  EXPECT_GT(error_of(swapped, a), 1.0);
  auto activations = a;
  activations[77].bits ^= 0x40;
  EXPECT_GT(error_of(w, activations), 1.0);

  std::vector<float> missing(expected.value.begin(), expected.value.end());
  missing[13] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_GT(worst_error(expected, missing.data(), n, OutputType::kF32), 1.0);
}

TEST(GemmFaults, TheGuardSeesOneByteWrittenBeside) {
  Guarded memory(100);
  EXPECT_TRUE(memory.intact());
  memory.data()[99] = std::byte{0};
  EXPECT_TRUE(memory.intact());
  memory.data()[100] = std::byte{0};
  EXPECT_FALSE(memory.intact());
  Guarded before(100);
  before.data()[-1] = std::byte{0};
  EXPECT_FALSE(before.intact());
}

}  // namespace
}  // namespace pinch
