// What attention computes on a device, through its front door: every kind of problem against the numerics that the CPU
// is tested with, the errors of each type, and inputs at the edges.
#include <gmock/gmock.h>

#include <set>

#include "tests/gpu/support/attention_on_device.h"

namespace pinch::cuda {
namespace {

/// In which order the kernels take key tiles.
constexpr bool kBackward = true;

/// Largest relative error of an exponential.
double exp2_error(const attention::sm90::Tile& tile) {
  switch (tile.exp2) {
    case Exp2::kHardware:
      return 0x1p-22;
    case Exp2::kPoly4:
      return attention::kPolyError[1];
    case Exp2::kPoly5:
      return attention::kPolyError[2];
    case Exp2::kPoly3:
    case Exp2::kMixed:
      return attention::kPolyError[0];
  }
  return kInfinity;
}

/// How far a kernel may be from emulate(), as in tests/kernel/attention_test.cc: exp2 and the scores move P by e, which
/// takes it past a midpoint between codes. Beside FP32 sums, E4M3 products are summed to 14 bits in the matrix unit
/// before they are promoted: 2^-13 of the magnitudes, of which scores have 13 sigma in log2 units, and averages of
/// random values are sqrt(keys) smaller than.
double tolerance(const AttentionProblem& p, std::size_t index, double sigma) {
  const double e = exp2_error(tactic_at(index).tile) + 4e-6 + (p.qk == QkType::kFp8 ? 0x1p-13 * 13 * sigma : 0);
  const double step = p.pv == kFp4 ? 0.5 : p.pv == kFp8 ? 0.125 : 0x1p-7;
  const double midpoints = p.pv == kFp4 ? 3 : p.pv == kFp8 ? 8 : 128;
  const double sums = p.pv == kFp8 ? 0x1p-13 * std::sqrt(static_cast<double>(p.kv_seq)) : 2e-6;
  return step * std::sqrt(midpoints * e / std::log(2.0)) + 2 * e + sums + (p.output == OutputType::kBf16 ? 0x1p-8 : 0);
}

/// What the tactic's kernel computes.
Dense emulation_of(const Case& c, std::size_t index) {
  const attention::sm90::Tactic& tactic = tactic_at(index);
  return emulate(quantized(c), tactic.tile.tile_kv, Planted::kNone, kBackward, tactic.threshold);
}

std::string describe(const Case& c, std::size_t index) {
  const AttentionProblem& p = c.problem;
  return name_at(index) + " b" + std::to_string(p.batch) + " h" + std::to_string(p.heads) + "/" +
         std::to_string(p.kv_heads) + " s" + std::to_string(p.seq) + "/" + std::to_string(p.kv_seq) + " d" +
         std::to_string(p.dim) + (p.causal ? " causal " : " full ") + std::string(to_string(p.pv)) +
         (p.qk == QkType::kFp8 ? " qk fp8" : "") + (p.output == OutputType::kF32 ? " f32" : " bf16") +
         (c.variable() ? " variable" : "");
}

void expect_right(const Case& c, std::size_t index, double sigma, const Dense& want) {
  const auto got = run_on_device(c, name_at(index));
  ASSERT_TRUE(got.ok()) << got.error().message() << describe(c, index);
  EXPECT_TRUE(got->intact) << "wrote between rows or past the end: " << describe(c, index);
  EXPECT_LE(rel_l2(got->dense.o, want.o), tolerance(c.problem, index, sigma)) << describe(c, index);
  const double lse_error = 2e-4 + (c.problem.qk == QkType::kFp8 ? 0x1p-13 * 9 * sigma : 0);
  for (std::size_t i = 0; i < want.lse.size(); ++i) {
    const double a = got->dense.lse[i], b = want.lse[i];
    const bool same = std::isnan(b) ? std::isnan(a) : std::isinf(b) ? a == b : std::fabs(a - b) <= lse_error;
    ASSERT_TRUE(same) << "lse " << i << ": " << a << " for " << b << " " << describe(c, index);
  }
}

std::int64_t random_length(std::mt19937& bits, double longest) {
  const double u = static_cast<double>(bits()) / 4294967296.0;
  return static_cast<std::int64_t>(std::exp2(u * std::log2(longest + 0.99)));
}

// Lengths 1 to 4097, groups of 1 to 16 heads, odd strides, all types that there are kernels for, every tactic in turn.
TEST_F(AttentionFrontDoor, RandomProblemsMatchTheEmulation) {
  std::mt19937 bits(1);
  constexpr int kProblems = 240;
  constexpr double kMostWork = 6e6;
  int ran = 0;
  std::set<std::size_t> used;
  for (int i = 0; i < kProblems; ++i) {
    AttentionProblem p;
    p.dim = bits() % 2 == 0 ? 64 : 128;
    p.pv = static_cast<PvType>(i % 3);
    p.qk = p.pv == kFp8 && bits() % 2 == 0 ? QkType::kFp8 : QkType::kBf16;
    p.causal = bits() % 2 == 0;
    p.output = bits() % 2 == 0 ? OutputType::kBf16 : OutputType::kF32;
    const auto group = static_cast<std::int64_t>(1 + bits() % 16);
    p.kv_heads = 1 + static_cast<std::int64_t>(bits() % 2);
    p.heads = p.kv_heads * group;
    p.batch = 1 + static_cast<std::int64_t>(bits() % 3);
    if (i < 6) p.batch = p.heads = p.kv_heads = 1;  // the longest
    const double rows = kMostWork / static_cast<double>(p.dim * p.heads * p.batch);
    p.seq = i < 6 ? 4097 - i / 3 : random_length(bits, std::min(rows, 4097.0));
    p.kv_seq = random_length(bits, std::clamp(rows / static_cast<double>(p.seq), 1.0, 4097.0));
    if (i % 2 == 1) std::swap(p.seq, p.kv_seq);
    const auto legal = legal_tactics(p);
    const double sigma = bits() % 2 == 0 ? 1 : 3;
    const bool rows_outside = bits() % 2 == 0, variable = p.batch > 1 && bits() % 2 == 0;
    const auto gap = static_cast<std::int64_t>(8 * (bits() % 4));
    const auto seed = static_cast<std::uint32_t>(100 + i), turn = static_cast<std::uint32_t>(bits());
    if (legal.empty()) continue;  // a build without kernels of this kind
    const std::size_t index = legal[turn % legal.size()];
    const Case c = make_case(p, sigma, seed, rows_outside, gap, variable);
    expect_right(c, index, sigma, emulation_of(c, index));
    if (HasFatalFailure()) return;
    used.insert(index);
    ++ran;
  }
  EXPECT_GE(ran, 200) << "a build has a kernel of each kind at least";
  RecordProperty("problems", ran);
  std::printf("%d problems by %zu tactics\n", ran, used.size());
}

TEST_F(AttentionFrontDoor, EveryTacticMatchesTheEmulation) {
  for (const std::int64_t dim : {64, 128}) {
    for (const auto& [pv, qk] : {std::pair{kBf16, QkType::kBf16}, std::pair{kFp8, QkType::kBf16},
                                 std::pair{kFp8, QkType::kFp8}, std::pair{kFp4, QkType::kBf16}}) {
      const AttentionProblem p{1, 4, 2, 301, 463, dim, true, pv, qk, OutputType::kF32};
      const Case c = make_case(p, 2, 5);
      for (const std::size_t index : legal_tactics(p)) expect_right(c, index, 2, emulation_of(c, index));
    }
  }
}

TEST_F(AttentionFrontDoor, TheComparisonFindsPlantedFaults) {
  const AttentionProblem p{1, 1, 1, 150, 300, 128, true, kBf16, QkType::kBf16, OutputType::kF32};
  const Case c = make_case(p, 2, 6);
  const std::size_t index = legal_tactics(p).front();
  const auto got = run_on_device(c, name_at(index));
  ASSERT_TRUE(got.ok());
  const int keys = tactic_at(index).tile.tile_kv;
  for (const Planted fault : {Planted::kMaskOneLate, Planted::kNoDecay}) {
    EXPECT_GT(rel_l2(got->dense.o, emulate(c, keys, fault, kBackward).o), 2 * tolerance(p, index, 2));
  }
}

/// What there are kernels for.
constexpr std::pair<PvType, QkType> kKinds[] = {
    {kBf16, QkType::kBf16}, {kFp8, QkType::kBf16}, {kFp8, QkType::kFp8}, {kFp4, QkType::kBf16}};

/// The case with another's values.
Case with_values_of(const Case& values, Case c) {
  c.v_data = values.v_data;
  return c;
}

double error_of(const Case& c, std::size_t index, const Dense& reference) {
  const auto got = run_on_device(c, name_at(index));
  EXPECT_TRUE(got.ok()) << got.error().message();
  return got.ok() ? rel_l2(got->dense.o, reference.o) : kInfinity;
}

// The CPU's table (tests/kernel/attention_test.cc): relative L2 error of O with P quantised alone, of 1024 keys, for
// which V is first put through its quantiser, so that the kernel's own changes nothing; and with V too, of 4096 keys,
// where errors add in squares and V's does not depend on sigma. Q and K of qk fp8 go through theirs first in both; what
// the matrix unit cuts off their products, 2^-13 of the largest, six sigma, of each of dim, is beside the table.
TEST_F(AttentionFrontDoor, ErrorsOfEachTypeAreThoseOfTheTable) {
  constexpr double kSigmas[] = {1, 3, 6};
  const std::map<PvType, std::array<double, 3>> p_only{
      {kBf16, {.0016, .0007, .0006}}, {kFp8, {.0239, .0117, .0074}}, {kFp4, {.096, .025, .013}}};
  const std::map<PvType, double> of_v{{kBf16, 0}, {kFp8, std::sqrt(.037 * .037 - .0239 * .0239)}, {kFp4, .093}};
  for (const auto& [pv, qk] : kKinds) {
    for (const std::int64_t dim : {64, 128}) {
      for (std::size_t at = 0; at < 6; ++at) {
        const std::size_t sigma = at % 3;
        const bool with_v = at >= 3;
        const AttentionProblem p = with_v ? AttentionProblem{1, 1, 1, 128, 4096, dim, false, pv, qk, OutputType::kF32}
                                          : AttentionProblem{1, 2, 1, 256, 1024, dim, false, pv, qk, OutputType::kF32};
        const Case made = make_case(p, kSigmas[sigma], with_v ? 50 : 40 + static_cast<std::uint32_t>(sigma));
        Case c = quantized(made);
        const double values_alone = with_v ? rel_l2(reference_of(c).o, reference_of(with_values_of(made, c)).o) : 0;
        if (with_v) c = with_values_of(made, c);
        const Dense reference = reference_of(c);
        const double of_table = with_v ? std::hypot(p_only.at(pv)[sigma], of_v.at(pv)) : p_only.at(pv)[sigma];
        const double cut = qk == QkType::kFp8 ? std::sqrt(static_cast<double>(dim)) * 0x1p-13 * 6 * kSigmas[sigma] : 0;
        const double most = std::hypot(1.1 * of_table, cut);
        for (const std::size_t index : legal_tactics(p)) {
          const double error = error_of(c, index, reference);
          const std::string what = std::string("dim ") + std::to_string(dim) + " qk " + std::string(to_string(qk)) +
                                   " pv " + std::string(to_string(pv)) + (with_v ? " with V" : "") + " sigma " +
                                   std::to_string(static_cast<int>(kSigmas[sigma])) + " " + name_at(index);
          EXPECT_LE(error, most) << what;
          EXPECT_GE(error, 0.95 * values_alone) << "V is rounded too: " << what;
          std::printf("%s: %.5f, at most %.5f, the table %.5f\n", what.c_str(), error, most, of_table);
        }
      }
    }
  }
}

TEST_F(AttentionFrontDoor, Fp8ErrorDoesNotGrowWithLongKeys) {
  for (const auto& [dim, qk] : {std::pair{64, QkType::kBf16}, std::pair{64, QkType::kFp8},
                                std::pair{128, QkType::kBf16}, std::pair{128, QkType::kFp8}}) {
    std::map<std::size_t, double> shortest;
    for (const std::int64_t keys : {1024, 131072}) {
      const AttentionProblem p{1, 1, 1, 16, keys, dim, false, kFp8, qk, OutputType::kF32};
      const Case exact = quantized(make_case(p, 1, 60));
      const Dense reference = reference_of(exact);
      for (const std::size_t index : legal_tactics(p)) {
        const double error = error_of(exact, index, reference);
        shortest.emplace(index, error);
        EXPECT_LE(error, 1.3 * shortest.at(index)) << keys << " keys, " << name_at(index);
        std::printf("dim %d, qk %s, %ld keys: %.5f  %s\n", dim, std::string(to_string(qk)).c_str(),
                    static_cast<long>(keys), error, name_at(index).c_str());
      }
    }
  }
}

void set_row(std::vector<Bf16>& data, std::int64_t at, std::int64_t dim, float value) {
  std::fill_n(data.begin() + at, dim, to_bf16(value));
}

// One key whose score is far above all: O is its value. All scores equal: O is the mean. Outliers in V: within the
// type.
TEST_F(AttentionFrontDoor, HugeKeysEqualScoresAndOutliers) {
  for (std::size_t at = 0; at < 2 * std::size(kKinds); ++at) {
    const auto& [pv, qk] = kKinds[at / 2];
    const std::int64_t dim = at % 2 == 0 ? 64 : 128;
    const AttentionProblem p{1, 1, 1, 40, 200, dim, false, pv, qk, OutputType::kF32};
    for (const std::size_t index : legal_tactics(p)) {
      Case huge = make_case(p, 1, 80);
      set_row(huge.q_data, huge.q_at(huge.q, 0, 0, 3), dim, 100);
      set_row(huge.k_data, huge.kv_at(0, 0, 77), dim, 100);
      const Case huge_exact = quantized(huge);
      const auto got = run_on_device(huge, name_at(index));
      ASSERT_TRUE(got.ok());
      const double score = static_cast<double>(dim) * 100 * 100 * huge.scale;
      EXPECT_NEAR(got->dense.lse[3] / score, 1, 1e-5) << name_at(index);
      // The maximum is a rounded product, which the exponent subtracts from an exact one: P is 2^(half a unit in the
      // last place of the score) before it is rounded, and so is the sum that divides.
      const double rounding = score * 1.4427 * 0x1p-24 * 0.6931 + 1e-5;
      for (std::int64_t d = 0; d < dim; ++d) {
        const double want = to_f32(huge_exact.v_data[static_cast<std::size_t>(huge.kv_at(0, 0, 77) + d)]);
        EXPECT_NEAR(got->dense.o[static_cast<std::size_t>(3 * dim + d)], want, rounding * (1 + std::fabs(want)))
            << name_at(index);
      }
      Case equal = make_case(p, 1, 81);
      for (std::int64_t j = 0; j < 200; ++j) set_row(equal.k_data, equal.kv_at(0, 0, j), dim, 0.5F);
      // Every P is 1, exact in every type. Its exponent is the rounding of scale times the maximum, so the exponential
      // that is summed is 1 or one of just below 2, halved: a polynomial is off there, and P, rounded, is not.
      const attention::sm90::Tile& tile = tactic_at(index).tile;
      const double share = tile.exp2 == Exp2::kMixed ? tile.sixteenths / 16.0 : 1;
      const double sums = (pv == kFp8 ? 0x1p-13 * std::sqrt(200.0) : 1e-5) + share * exp2_error(tile);
      EXPECT_LE(error_of(equal, index, reference_of(quantized(equal))), sums) << name_at(index);

      Case outlier = make_case(p, 1, 82);
      for (std::int64_t j = 0; j < 200; j += 50) set_row(outlier.v_data, outlier.kv_at(0, 0, j), dim, 1000);
      const double most = pv == kBf16 ? 0x1p-8 : pv == kFp8 ? 0x1p-4 + 0x1p-4 : 0.25 + 0.25;  // P and V, largest steps
      // Q and K of fp8 are rounded before, of which the types' table says nothing.
      const Case rounded = qk == QkType::kFp8 ? with_values_of(outlier, quantized(outlier)) : outlier;
      EXPECT_LE(error_of(rounded, index, reference_of(rounded)), most) << name_at(index);
    }
  }
}

TEST_F(AttentionFrontDoor, RowsThatSeeNoKeyAreZeroAndMinusInfinity) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem p{1, 2, 1, 450, 170, 64, true, pv, QkType::kBf16, OutputType::kBf16};
    const Case c = make_case(p, 1, 70);
    for (const std::size_t index : legal_tactics(p)) {
      const auto got = run_on_device(c, name_at(index));
      ASSERT_TRUE(got.ok());
      for (std::int64_t row = 0; row < 2 * 450; ++row) {
        const bool none = row % 450 < 280;
        ASSERT_EQ(got->dense.lse[static_cast<std::size_t>(row)] == -kInfinity, none) << name_at(index) << row;
        for (std::int64_t d = 0; d < 64; ++d) {
          const double value = got->dense.o[static_cast<std::size_t>(row * 64 + d)];
          ASSERT_TRUE(none ? value == 0 : std::isfinite(value)) << name_at(index) << row;
        }
      }
    }
  }
}

/// The case with V times 2^exponent.
Case with_values_scaled(Case c, int exponent) {
  for (Bf16& v : c.v_data) v = to_bf16(std::ldexp(to_f32(v), exponent));
  return c;
}

// A power of two that V has is a power of two of O, to the bit, as on the CPU (tests/kernel/attention_edges_test.cc).
TEST_F(AttentionFrontDoor, OutputsScaleExactlyWithLargeAndSmallValues) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem p{1, 1, 1, 40, 200, 64, false, pv, QkType::kBf16, OutputType::kF32};
    const Case c = make_case(p, 2, 96);
    for (const std::size_t index : legal_tactics(p)) {
      const auto base = run_on_device(c, name_at(index));
      ASSERT_TRUE(base.ok());
      for (const int exponent : {-88, pv == kBf16 ? 118 : pv == kFp8 ? 126 : 125}) {
        const auto scaled = run_on_device(with_values_scaled(c, exponent), name_at(index));
        ASSERT_TRUE(scaled.ok());
        for (std::size_t i = 0; i < base->dense.o.size(); ++i)
          ASSERT_EQ(scaled->dense.o[i], std::ldexp(base->dense.o[i], exponent)) << name_at(index) << " 2^" << exponent;
      }
    }
  }
}

// Where FP32 sums of bf16 values overflow their column is no number, and no other column differs by a bit.
TEST_F(AttentionFrontDoor, SumsThatOverflowLeaveOtherColumnsAlone) {
  const AttentionProblem p{1, 1, 1, 40, 200, 64, false, kBf16, QkType::kBf16, OutputType::kF32};
  const Case c = make_case(p, 1, 97);
  Case large = c;
  for (std::int64_t j = 0; j < 200; ++j)
    large.v_data[static_cast<std::size_t>(large.kv_at(0, 0, j) + 5)] = to_bf16(1e38F);
  for (const std::size_t index : legal_tactics(p)) {
    const auto base = run_on_device(c, name_at(index)), got = run_on_device(large, name_at(index));
    ASSERT_TRUE(base.ok() && got.ok());
    for (std::size_t i = 0; i < got->dense.o.size(); ++i) {
      const bool right = i % 64 == 5 ? !std::isfinite(got->dense.o[i]) : got->dense.o[i] == base->dense.o[i];
      ASSERT_TRUE(right) << name_at(index) << " row " << i / 64 << " column " << i % 64;
    }
  }
}

// As on the CPU (tests/kernel/attention_edges_test.cc): a row that sees keys, all of them at minus infinity, is like
// one that sees none; a NaN beside them is one; a score of minus infinity is a key that nobody sees.
TEST_F(AttentionFrontDoor, RowsOfMinusInfinityAreZeroNotNaN) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem p{1, 1, 1, 240, 264, 64, true, pv, QkType::kBf16, OutputType::kF32};
    Case c = make_case(p, 1, 93);
    for (std::int64_t i = 0; i < 240; ++i) c.q_data[static_cast<std::size_t>(c.q_at(c.q, 0, 0, i))] = to_bf16(1.0F);
    // Row i sees keys 0 .. 24 + i: rows 0 to 115 minus infinity alone, and those from 200 on a NaN too.
    const auto key = [&](std::int64_t j) { return static_cast<std::size_t>(c.kv_at(0, 0, j)); };
    for (std::int64_t j = 0; j < 140; ++j) c.k_data[key(j)] = to_bf16(-kInfinity);
    c.k_data[key(224) + 1] = Bf16{0x7fc0};
    const Dense want = reference_of(c);
    for (const std::size_t index : legal_tactics(p)) {
      const auto got = run_on_device(c, name_at(index));
      ASSERT_TRUE(got.ok());
      for (std::size_t i = 0; i < 240; ++i) {
        const double lse = got->dense.lse[i];
        ASSERT_TRUE(i < 116   ? lse == -kInfinity
                    : i < 200 ? std::fabs(lse - want.lse[i]) < 1e-3
                              : std::isnan(lse))
            << name_at(index) << " row " << i << ": " << lse << " for " << want.lse[i];
        for (std::size_t d = 0; d < 64; ++d) {
          const double o = got->dense.o[i * 64 + d];
          ASSERT_TRUE(i < 116   ? o == 0
                      : i < 200 ? std::isfinite(o)
                                : std::isnan(o))
              << name_at(index) << " row " << i << ": " << o;
        }
      }
    }
  }
}

TEST_F(AttentionFrontDoor, NaNsStayInTheRowsAndSequencesThatSeeThem) {
  const Bf16 nan{0x7fc0};
  const AttentionProblem p{1, 1, 1, 256, 256, 64, true, kBf16, QkType::kBf16, OutputType::kBf16};
  Case c = make_case(p, 1, 90);
  c.k_data[static_cast<std::size_t>(c.kv_at(0, 0, 40))] = nan;
  for (const std::size_t index : legal_tactics(p)) {
    const auto got = run_on_device(c, name_at(index));
    ASSERT_TRUE(got.ok());
    for (std::int64_t i = 0; i < 256; ++i) {
      ASSERT_EQ(std::isnan(got->dense.o[static_cast<std::size_t>(i * 64)]), i >= 40) << name_at(index) << " row " << i;
      ASSERT_EQ(std::isnan(got->dense.lse[static_cast<std::size_t>(i)]), i >= 40) << name_at(index) << " row " << i;
    }
  }
  // The second of three sequences that follow one another is all NaN.
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem several{3, 2, 2, 100, 100, 64, false, pv, QkType::kBf16, OutputType::kF32};
    Case v = make_case(several, 1, 91, false, 0, true);
    v.cu_q = {0, 70, 140, 210}, v.cu_kv = {0, 50, 130, 200};
    std::mt19937 bits(3);
    const auto fill = [&](std::vector<Bf16>& data) {
      for (Bf16& x : data) x = to_bf16(static_cast<float>(bits() % 64) / 32 - 1);
    };
    fill(v.q_data), fill(v.k_data), fill(v.v_data);
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t j = 0; j < 80; ++j) {
        std::fill_n(v.k_data.begin() + v.kv_at(1, h, j), 64, nan);
        std::fill_n(v.v_data.begin() + v.kv_at(1, h, j), 64, nan);
      }
    }
    for (const std::size_t index : legal_tactics(several)) {
      const auto got = run_on_device(v, name_at(index));
      ASSERT_TRUE(got.ok());
      for (std::int64_t b = 0; b < 3; ++b) {
        for (std::int64_t row = 0; row < 70 * 64; ++row) {
          const double value = got->dense.o[static_cast<std::size_t>(b * 2 * 100 * 64 + row)];
          ASSERT_EQ(std::isnan(value), b == 1) << name_at(index) << " sequence " << b << " row " << row / 64;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pinch::cuda
