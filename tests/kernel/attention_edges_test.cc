// Attention where inputs are no numbers, infinite, huge or tiny, and where a row sees nothing.
#include "tests/kernel/attention_cases.h"

namespace pinch {
namespace {

using namespace test;  // NOLINT

TEST(AttentionEdges, RowsThatSeeNoKeyAreZeroAndMinusInfinity) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem p{1, 2, 1, 150, 70, 64, true, pv, QkType::kBf16, OutputType::kBf16};
    const Case c = make_case(p, 1, 70);
    for (const CpuIsa isa : allowed_isas()) {
      for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
        if (t.isa != isa) continue;
        const auto got = run_case(c, {to_string(t), 1});
        ASSERT_TRUE(got.ok());
        for (std::int64_t row = 0; row < 2 * 150; ++row) {
          const bool none = row % 150 < 80;
          ASSERT_EQ(got->dense.lse[static_cast<std::size_t>(row)] == -kInfinity, none) << to_string(t) << row;
          for (std::int64_t d = 0; d < 64; ++d) {
            const double value = got->dense.o[static_cast<std::size_t>(row * 64 + d)];
            ASSERT_TRUE(none ? value == 0 : std::isfinite(value)) << to_string(t) << row;
          }
        }
      }
    }
  }
}

TEST(AttentionEdges, NaNsStayInTheRowsThatSeeThem) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem p{1, 1, 1, 64, 64, 64, true, pv, QkType::kBf16, OutputType::kBf16};
    Case c = make_case(p, 1, 90);
    c.k_data[static_cast<std::size_t>(c.kv_at(0, 0, 40))] = Bf16{0x7fc0};
    for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
      const auto got = run_case(c, {to_string(t), 1});
      ASSERT_TRUE(got.ok());
      for (std::int64_t i = 0; i < 64; ++i) {
        ASSERT_EQ(std::isnan(got->dense.o[static_cast<std::size_t>(i * 64)]), i >= 40) << to_string(t) << " row " << i;
        ASSERT_EQ(std::isnan(got->dense.lse[static_cast<std::size_t>(i)]), i >= 40) << to_string(t) << " row " << i;
      }
    }
  }
}

// A score of minus infinity is a key that nobody sees; plus infinity leaves no number.
TEST(AttentionEdges, InfiniteScoresAreMaskedKeysOrNaN) {
  const AttentionProblem p{1, 1, 1, 40, 64, 64, false, kBf16, QkType::kBf16, OutputType::kF32};
  Case c = make_case(p, 1, 92);
  for (std::int64_t i = 0; i < 40; ++i) c.q_data[static_cast<std::size_t>(c.q_at(c.q, 0, 0, i))] = to_bf16(1.0F);
  const auto run_with = [&](float value, const AttentionCpuTactic& t) {
    c.k_data[static_cast<std::size_t>(c.kv_at(0, 0, 40))] = to_bf16(value);
    return run_case(c, {to_string(t), 1});
  };
  for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
    const auto below = run_with(-kInfinity, t);
    ASSERT_TRUE(below.ok());
    EXPECT_LE(rel_l2(below->dense.o, reference_of(c).o), 0x1p-7) << to_string(t);
    const auto above = run_with(kInfinity, t);
    ASSERT_TRUE(above.ok());
    for (const double o : above->dense.o) ASSERT_TRUE(std::isnan(o)) << to_string(t);
  }
}

// A row that sees keys, all of them at minus infinity, is like one that sees none; a NaN beside them is one.
TEST(AttentionEdges, RowsOfMinusInfinityAreZeroNotNaN) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem p{1, 1, 1, 40, 64, 64, true, pv, QkType::kBf16, OutputType::kF32};
    Case c = make_case(p, 1, 93);
    for (std::int64_t i = 0; i < 40; ++i) c.q_data[static_cast<std::size_t>(c.q_at(c.q, 0, 0, i))] = to_bf16(1.0F);
    for (std::int64_t j = 0; j < 34; ++j) c.k_data[static_cast<std::size_t>(c.kv_at(0, 0, j))] = to_bf16(-kInfinity);
    c.k_data[static_cast<std::size_t>(c.kv_at(0, 0, 27) + 1)] = Bf16{0x7fc0};
    // Row i sees keys 0 .. 24 + i: rows 0 to 2 minus infinity alone, all others the NaN too.
    const auto expect_rows = [&](const Dense& got, const std::string& by) {
      for (std::size_t i = 0; i < 40; ++i) {
        for (std::size_t d = 0; d < 64; ++d) {
          const double o = got.o[i * 64 + d];
          ASSERT_TRUE(i < 3 ? o == 0 : std::isnan(o)) << by << " row " << i << ": " << o;
        }
        ASSERT_TRUE(i < 3 ? got.lse[i] == -kInfinity : std::isnan(got.lse[i])) << by << " row " << i;
      }
    };
    expect_rows(reference_of(c), "reference");
    for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
      const auto got = run_case(c, {to_string(t), 1});
      ASSERT_TRUE(got.ok());
      expect_rows(got->dense, to_string(t));
    }
  }
}

/// The case with V times 2^exponent.
Case with_values_scaled(Case c, int exponent) {
  for (Bf16& v : c.v_data) v = to_bf16(std::ldexp(to_f32(v), exponent));
  return c;
}

// A power of two that V has is a power of two of O, to the bit, from the smallest heads that keep every bit to the
// largest bf16 numbers; bf16 values are summed as they are, and 200 of them stay below 2^128.
TEST(AttentionEdges, OutputsScaleExactlyWithLargeAndSmallValues) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem p{1, 1, 1, 40, 200, 64, false, pv, QkType::kBf16, OutputType::kF32};
    const Case c = make_case(p, 2, 96);
    for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
      if (t.exp2 != Exp2::kPoly4) continue;
      const auto base = run_case(c, {to_string(t), 1});
      ASSERT_TRUE(base.ok());
      for (const int exponent : {-88, pv == kBf16 ? 118 : pv == kFp8 ? 126 : 125}) {
        const auto scaled = run_case(with_values_scaled(c, exponent), {to_string(t), 1});
        ASSERT_TRUE(scaled.ok());
        for (std::size_t i = 0; i < base->dense.o.size(); ++i)
          ASSERT_EQ(scaled->dense.o[i], std::ldexp(base->dense.o[i], exponent)) << to_string(t) << " 2^" << exponent;
      }
    }
  }
}

// Where FP32 sums of bf16 values overflow their column is no number, and no other column differs by a bit.
TEST(AttentionEdges, SumsThatOverflowLeaveOtherColumnsAlone) {
  const AttentionProblem p{1, 1, 1, 40, 200, 64, false, kBf16, QkType::kBf16, OutputType::kF32};
  const Case c = make_case(p, 1, 97);
  Case large = c;
  for (std::int64_t j = 0; j < 200; ++j)
    large.v_data[static_cast<std::size_t>(large.kv_at(0, 0, j) + 5)] = to_bf16(1e38F);
  for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
    const auto base = run_case(c, {to_string(t), 1}), got = run_case(large, {to_string(t), 1});
    ASSERT_TRUE(base.ok() && got.ok());
    for (std::size_t i = 0; i < got->dense.o.size(); ++i) {
      const bool right = i % 64 == 5 ? !std::isfinite(got->dense.o[i]) : got->dense.o[i] == base->dense.o[i];
      ASSERT_TRUE(right) << to_string(t) << " row " << i / 64 << " column " << i % 64;
    }
  }
}

// Keys in fp8 share a scale: one that is no number reaches every row that sees any key, and no other head.
TEST(AttentionEdges, AnFp8KeyThatIsNoNumberReachesItsWholeHead) {
  const AttentionProblem p{1, 2, 2, 70, 64, 64, true, kBf16, QkType::kFp8, OutputType::kF32};
  for (const float bad : {std::nanf(""), static_cast<float>(kInfinity), -static_cast<float>(kInfinity)}) {
    Case c = make_case(p, 1, 94);
    c.k_data[static_cast<std::size_t>(c.kv_at(0, 0, 40))] = to_bf16(bad);
    for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
      const auto got = run_case(c, {to_string(t), 1});
      ASSERT_TRUE(got.ok());
      for (std::size_t row = 0; row < 140; ++row) {  // the first six rows of a head see no key
        const double o = got->dense.o[row * 64];
        ASSERT_TRUE(row % 70 < 6 ? o == 0 : row < 70 ? std::isnan(o) : std::isfinite(o)) << to_string(t) << row;
      }
    }
  }
}

// Queries in fp8 share one too, in all tiles of a head.
TEST(AttentionEdges, AnFp8QueryThatIsNoNumberReachesItsWholeHead) {
  const AttentionProblem p{1, 2, 1, 300, 64, 64, false, kBf16, QkType::kFp8, OutputType::kF32};
  Case c = make_case(p, 1, 98);
  c.q_data[static_cast<std::size_t>(c.q_at(c.q, 0, 0, 299))] = Bf16{0x7fc0};
  for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
    const auto got = run_case(c, {to_string(t), 1});
    ASSERT_TRUE(got.ok());
    for (std::size_t row = 0; row < 600; ++row)
      ASSERT_EQ(std::isnan(got->dense.o[row * 64]), row < 300) << to_string(t) << row;
  }
}

// Any finite scale: below 0 the smallest product counts most, at 0 all keys alike.
TEST(AttentionEdges, ScalesBelowAndAtZeroAreScalesToo) {
  for (const PvType pv : {kBf16, kFp4}) {
    const AttentionProblem p{1, 2, 1, 70, 90, 64, true, pv, QkType::kBf16, OutputType::kF32};
    for (const float factor : {-1.0F, 0.0F}) {
      Case c = make_case(p, 2, 99);
      c.scale *= factor;
      const Dense want = reference_of(quantized(c));
      for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
        const auto got = run_case(c, {to_string(t), 1});
        ASSERT_TRUE(got.ok());
        // P alone is rounded: .096 at sigma 1 with fp4, at 0 only 2^x errs.
        EXPECT_LE(rel_l2(got->dense.o, want.o), factor == 0   ? attention::kPolyError[0]
                                                : pv == kBf16 ? 0x1p-8
                                                              : 0.11)
            << to_string(t);
      }
    }
  }
}

}  // namespace
}  // namespace pinch
