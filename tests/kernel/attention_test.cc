// Every instruction set against an FP64 emulation of the same numerics, and against FP64 attention.
#include "tests/kernel/attention_cases.h"

namespace pinch {
namespace {

using namespace test;  // NOLINT
using attention::PForm;
using attention::Probabilities;

double exp2_error(Exp2 exp2) {
  return attention::kPolyError[exp2 == Exp2::kPoly3 ? 0 : exp2 == Exp2::kPoly4 ? 1 : 2];
}

/// How far a kernel may be from emulate(). Its exp2 and its FP32 scores (4e-6 of scores up to 2^5) move P by e, which
/// takes P past a midpoint between codes in a share of n e / ln 2 of them, n midpoints an octave (bf16 128, fp8 8, fp4
/// about 3), and so moves it by a step of at most 2^-7, 1/8 or 1/2. Then come FP32 sums and the rounding of the output.
double tolerance(const AttentionProblem& p, const AttentionCpuTactic& t) {
  const double e = exp2_error(t.exp2) + 4e-6;
  const double step = p.pv == kFp4 ? 0.5 : p.pv == kFp8 ? 0.125 : 0x1p-7;
  const double midpoints = p.pv == kFp4 ? 3 : p.pv == kFp8 ? 8 : 128;
  return step * std::sqrt(midpoints * e / std::log(2.0)) + 2 * e + 2e-6 + (p.output == OutputType::kBf16 ? 0x1p-8 : 0);
}

// A sanitised build multiplies ten times slower and finds nothing in tests of accuracy that the others do not show it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif
#define PINCH_SKIP_IF_SANITIZED() \
  if (kSanitized) GTEST_SKIP() << "accuracy is for a build without sanitizers"

std::string describe(const Case& c, const AttentionCpuTactic& t) {
  const AttentionProblem& p = c.problem;
  std::string text = to_string(t) + " b" + std::to_string(p.batch) + " h" + std::to_string(p.heads) + "/" +
                     std::to_string(p.kv_heads) + " s" + std::to_string(p.seq) + "/" + std::to_string(p.kv_seq) + " d" +
                     std::to_string(p.dim) + (p.causal ? " causal " : " full ");
  return text + std::string(to_string(p.pv)) + (p.qk == QkType::kFp8 ? " qk fp8" : "") +
         (c.variable() ? " variable" : "");
}

void expect_right(const Case& c, const AttentionCpuTactic& t, int threads, const Dense& want) {
  const auto got = run_case(c, {to_string(t), threads});
  ASSERT_TRUE(got.ok()) << got.error().message() << describe(c, t);
  EXPECT_TRUE(got->intact) << describe(c, t);
  EXPECT_LE(rel_l2(got->dense.o, want.o), tolerance(c.problem, t)) << describe(c, t);
  for (std::size_t i = 0; i < want.lse.size(); ++i) {
    const double a = got->dense.lse[i], b = want.lse[i];
    const bool same = std::isnan(b) ? std::isnan(a) : std::isinf(b) ? a == b : std::fabs(a - b) <= 2e-4;
    ASSERT_TRUE(same) << "lse " << i << ": " << a << " for " << b << " " << describe(c, t);
  }
}

std::int64_t random_length(std::mt19937& bits, double longest) {
  const double u = static_cast<double>(bits()) / 4294967296.0;
  return static_cast<std::int64_t>(std::exp2(u * std::log2(longest + 0.99)));
}

// Lengths 1 to 4097, groups of 1 to 16 heads, odd strides, all types, every instruction set in turn.
TEST(Attention, RandomProblemsMatchTheEmulation) {
  std::mt19937 bits(1);
  const auto isas = allowed_isas();
  constexpr int kProblems = 220;
  constexpr double kMostWork = 8e5;
  for (int i = 0; i < kProblems; ++i) {
    AttentionProblem p;
    p.dim = bits() % 2 == 0 ? 64 : 128;
    p.pv = static_cast<PvType>(bits() % 3);
    p.qk = bits() % 3 == 0 ? QkType::kFp8 : QkType::kBf16;
    p.causal = bits() % 2 == 0;
    p.output = bits() % 2 == 0 ? OutputType::kBf16 : OutputType::kF32;
    const auto group = static_cast<std::int64_t>(1 + bits() % 16);
    p.kv_heads = 1 + bits() % 2;
    p.heads = p.kv_heads * group;
    p.batch = 1 + bits() % 3;
    if (i < 4) p.batch = p.heads = p.kv_heads = 1;  // the longest
    const double rows = kMostWork / static_cast<double>(p.dim * p.heads * p.batch);
    p.seq = i < 4 ? 4097 - i : random_length(bits, std::min(rows, 4097.0));
    p.kv_seq = random_length(bits, std::clamp(rows / static_cast<double>(p.seq), 1.0, 4097.0));
    if (i % 2 == 1) std::swap(p.seq, p.kv_seq);
    const Case c = make_case(p, bits() % 2 == 0 ? 1 : 3, 100 + static_cast<std::uint32_t>(i), bits() % 2 == 0,
                             static_cast<std::int64_t>(bits() % 4), p.batch > 1 && bits() % 2 == 0);
    std::vector<AttentionCpuTactic> of_isa;
    for (const AttentionCpuTactic& t : legal_tactics(p, 2)) {
      if (t.isa == isas[static_cast<std::size_t>(i) % isas.size()]) of_isa.push_back(t);
    }
    ASSERT_FALSE(of_isa.empty());
    const AttentionCpuTactic& t = of_isa[bits() % of_isa.size()];
    const int threads = (t.split == AttentionSplit::kTiles ? 2 : 1) + static_cast<int>(bits() % 2);
    expect_right(c, t, threads, emulate(quantized(c), t.tile_kv));
    if (HasFatalFailure()) return;
  }
}

TEST(Attention, EveryTacticMatchesTheEmulation) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem p{1, 4, 2, 101, 163, 64, true, pv, QkType::kBf16, OutputType::kF32};
    const Case c = make_case(p, 2, 5);
    std::map<int, Dense> want;  // by keys of a tile: the rest changes nothing that it holds
    for (const AttentionCpuTactic& t : legal_tactics(p, 2)) {
      if (!want.contains(t.tile_kv)) want[t.tile_kv] = emulate(quantized(c), t.tile_kv);
      expect_right(c, t, 2, want[t.tile_kv]);
    }
  }
}

TEST(Attention, TheComparisonFindsPlantedFaults) {
  const AttentionProblem p{1, 1, 1, 150, 300, 64, true, kFp4, QkType::kBf16, OutputType::kF32};
  const Case c = make_case(p, 2, 6);
  const AttentionCpuTactic t = legal_tactics(p, 1).front();
  const Dense right = emulate(quantized(c), t.tile_kv);
  for (const Planted fault : {Planted::kMaskOneLate, Planted::kFirstGroupsScale, Planted::kNoDecay}) {
    EXPECT_GT(rel_l2(emulate(quantized(c), t.tile_kv, fault).o, right.o), 2 * tolerance(p, t));
  }
  EXPECT_GT(rel_l2(emulate(c, t.tile_kv).o, right.o), 2 * tolerance(p, t)) << "V that was not quantised";
}

// For bf16 the error of every element derives: P rounds by at most 2^-8, exp2 and scores err by e, sums by FP32.
TEST(Attention, Bf16IsWithinItsRoundingOfFp64) {
  PINCH_SKIP_IF_SANITIZED();
  const AttentionProblem p{2, 3, 3, 130, 700, 128, true, kBf16, QkType::kBf16, OutputType::kF32};
  const Case c = make_case(p, 3, 7);
  Case magnitudes = c;
  for (Bf16& v : magnitudes.v_data) v.bits &= 0x7fff;
  const Dense want = reference_of(c), size = reference_of(magnitudes);
  for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
    const auto got = run_case(c, {to_string(t), 1});
    ASSERT_TRUE(got.ok());
    double worst = 0;
    for (std::size_t i = 0; i < want.o.size(); ++i) {
      const double allowed = (0x1p-8 + 2 * exp2_error(t.exp2) + 2e-5) * size.o[i];
      worst = std::max(worst, std::fabs(got->dense.o[i] - want.o[i]) / allowed);
    }
    EXPECT_LE(worst, 1) << to_string(t);
    EXPECT_GT(worst, 0.005) << "P is rounded to bf16: " << worst;
  }
}

/// V through its quantiser, so that quantising it again changes nothing: the error left is P's.
double error_of(const Case& c, const std::string& tactic, const Dense& reference) {
  const auto got = run_case(c, {tactic, 2});
  EXPECT_TRUE(got.ok()) << got.error().message();
  return got.ok() ? rel_l2(got->dense.o, reference.o) : kInfinity;
}

/// The first and the last tactic of this set and form: heads with degree 3, tiles with degree 5.
std::vector<std::string> ends_of(const AttentionProblem& p, CpuIsa isa, Quant quant) {
  std::vector<std::string> names;
  for (const AttentionCpuTactic& t : legal_tactics(p, 2)) {
    if (t.isa == isa && t.quant == quant) names.push_back(to_string(t));
  }
  return {names.front(), names.back()};
}

struct Row {
  PvType pv;
  Quant quant;
  double p_only[3];
};
// Relative L2 error of O with P quantised alone at sigma 1, 3, 6: public figures of an emulation, 1024 keys. They round
// to one or two digits; fp8 and fp4 at sigma 6 rest on a few keys a row.
constexpr double kSigmas[] = {1, 3, 6};
constexpr Row kTable[] = {{kBf16, Quant::kLinear, {.0016, .0007, .0006}},
                          {kFp8, Quant::kLinear, {.0239, .0117, .0074}},
                          {kFp4, Quant::kLinear, {.096, .025, .013}},
                          {kFp4, Quant::kLog, {.096, .025, .013}}};

/// Dims, and what Q and K are multiplied in: rounded before, so that the table of P holds for both.
constexpr std::pair<int, QkType> kDimsAndScores[] = {
    {64, QkType::kBf16}, {64, QkType::kFp8}, {128, QkType::kBf16}, {128, QkType::kFp8}};

TEST(Attention, ErrorsOfEachTypeAreThoseOfTheTable) {
  PINCH_SKIP_IF_SANITIZED();
  for (int at = 0; at < 3; ++at) {
    for (const auto& [dim, qk] : kDimsAndScores) {
      double expected = 0;
      for (const Row& row : kTable) {
        const AttentionProblem p{1, 2, 1, 256, 1024, dim, false, row.pv, qk, OutputType::kF32};
        const Case exact = quantized(make_case(p, kSigmas[at], 40 + static_cast<std::uint32_t>(at)));
        const Dense reference = reference_of(exact);
        // The same in FP64 with the final maximum. A running one is exact for the largest P of each tile: of 64 keys up
        // to a quarter less where few keys count.
        if (row.quant == Quant::kLinear) expected = rel_l2(emulate(exact, 1024).o, reference.o);
        for (const CpuIsa isa : allowed_isas()) {
          // Slow; it is held to the same emulation everywhere else.
          if (isa == CpuIsa::kScalar && (at > 0 || dim == 128)) continue;
          for (const std::string& tactic : ends_of(p, isa, row.quant)) {
            const double error = error_of(exact, tactic, reference);
            EXPECT_LE(error, 1.1 * row.p_only[at]) << tactic << " sigma " << kSigmas[at] << " dim " << dim;
            EXPECT_GE(error, 0.7 * expected) << tactic << " sigma " << kSigmas[at] << " dim " << dim;
          }
        }
      }
    }
  }
}

// With V quantised too. Its errors are independent of P's, so that squares add, and are a part of V and so of O
// whatever sigma is: public figures at sigma 1 and 4096 keys are fp8 .037 in all, P bf16 with V nvfp4 .093, both nvfp4
// .133.
TEST(Attention, ErrorsWithQuantisedValuesAreThoseOfTheTable) {
  PINCH_SKIP_IF_SANITIZED();
  const std::map<PvType, double> of_v{{kFp8, std::sqrt(.037 * .037 - .0239 * .0239)}, {kFp4, .093}};
  for (int at = 0; at < 3; ++at) {
    for (const auto& [dim, qk] : kDimsAndScores) {
      for (const Row& row : kTable) {
        if (row.pv == kBf16) continue;  // V is bf16: the test above
        const AttentionProblem p{1, 1, 1, 128, 4096, dim, false, row.pv, qk, OutputType::kF32};
        const Case made = make_case(p, kSigmas[at], 50), exact = quantized(made);
        Case c = exact;
        c.v_data = made.v_data;
        const Dense reference = reference_of(c);
        const double values_alone = rel_l2(reference_of(exact).o, reference.o);
        for (const CpuIsa isa : allowed_isas()) {
          if (isa == CpuIsa::kScalar && (at > 0 || dim == 128)) continue;
          for (const std::string& tactic : ends_of(p, isa, row.quant)) {
            const double error = error_of(c, tactic, reference);
            EXPECT_LE(error, 1.1 * std::hypot(row.p_only[at], of_v.at(row.pv)))
                << tactic << " sigma " << kSigmas[at] << " dim " << dim;
            EXPECT_GE(error, 0.95 * values_alone)
                << "V is rounded too: " << tactic << " sigma " << kSigmas[at] << " dim " << dim;
          }
        }
      }
    }
  }
}

TEST(Attention, Fp8ErrorDoesNotGrowWithLongKeys) {
  PINCH_SKIP_IF_SANITIZED();
  for (const auto& [dim, qk] : kDimsAndScores) {
    std::map<CpuIsa, double> shortest;
    for (const std::int64_t keys : {1024, 131072}) {
      const AttentionProblem p{1, 1, 1, 16, keys, dim, false, kFp8, qk, OutputType::kF32};
      const Case exact = quantized(make_case(p, 1, 60));
      const Dense reference = reference_of(exact);
      for (const CpuIsa isa : allowed_isas()) {
        const double error = error_of(exact, ends_of(p, isa, Quant::kLinear).back(), reference);
        shortest.emplace(isa, error);
        EXPECT_LE(error, 1.3 * shortest.at(isa)) << to_string(isa) << " dim " << dim << " keys " << keys;
      }
    }
  }
}

void set_row(std::vector<Bf16>& data, std::int64_t at, std::int64_t dim, float value) {
  std::fill_n(data.begin() + at, dim, to_bf16(value));
}

// One key whose score is far above all: O is its value. All scores equal: O is the mean. Outliers in V: within the
// type.
TEST(Attention, HugeKeysEqualScoresAndOutliers) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    for (const std::int64_t dim : {64, 128}) {
      const AttentionProblem p{1, 1, 1, 40, 200, dim, false, pv, QkType::kBf16, OutputType::kF32};
      for (const CpuIsa isa : allowed_isas()) {
        std::string tactic;
        for (const AttentionCpuTactic& t : legal_tactics(p, 1)) {
          if (t.isa == isa) tactic = to_string(t);
        }
        Case huge = make_case(p, 1, 80);
        set_row(huge.q_data, huge.q_at(huge.q, 0, 0, 3), dim, 100);
        set_row(huge.k_data, huge.kv_at(0, 0, 77), dim, 100);
        const Case huge_exact = quantized(huge);
        const auto got = run_case(huge, {tactic, 1});
        ASSERT_TRUE(got.ok());
        const double score = static_cast<double>(dim) * 100 * 100 * huge.scale;
        EXPECT_NEAR(got->dense.lse[3] / score, 1, 1e-5) << tactic;
        for (std::int64_t d = 0; d < dim; ++d) {
          const double want = to_f32(huge_exact.v_data[static_cast<std::size_t>(huge.kv_at(0, 0, 77) + d)]);
          EXPECT_NEAR(got->dense.o[static_cast<std::size_t>(3 * dim + d)], want, 1e-5) << tactic;
        }

        Case equal = make_case(p, 1, 81);
        for (std::int64_t j = 0; j < 200; ++j) set_row(equal.k_data, equal.kv_at(0, 0, j), dim, 0.5F);
        const Case exact = quantized(equal);
        EXPECT_LE(error_of(equal, tactic, reference_of(exact)), 2e-6)
            << "every P is 1: exact in every type, " << tactic;

        Case outlier = make_case(p, 1, 82);
        for (std::int64_t j = 0; j < 200; j += 50) set_row(outlier.v_data, outlier.kv_at(0, 0, j), dim, 1000);
        const double most = pv == kBf16  ? 0x1p-8
                            : pv == kFp8 ? 0x1p-4 + 0x1p-4
                                         : 0.25 + 0.25;  // P and V, largest steps
        EXPECT_LE(error_of(outlier, tactic, reference_of(outlier)), most) << tactic;
      }
    }
  }
}

// Sixty runs, thread counts and both splits give the same bits; the workspace is poisoned anew each time.
TEST(Attention, RepeatedRunsThreadsAndSplitsGiveTheSameBits) {
  for (const auto& [pv, qk] : {std::pair{kBf16, QkType::kBf16}, std::pair{kFp8, QkType::kBf16},
                               std::pair{kFp8, QkType::kFp8}, std::pair{kFp4, QkType::kFp8}}) {
    const AttentionProblem p{2, 4, 2, 70, 150, 64, true, pv, qk, OutputType::kF32};
    const Case c = make_case(p, 2, 95);
    for (const CpuIsa isa : allowed_isas()) {
      std::optional<Outcome> first;
      int runs = 0;
      while (runs < (kSanitized ? 6 : 60)) {
        const auto legal = legal_tactics(p, 4);
        const AttentionCpuTactic* shape = nullptr;
        for (const AttentionCpuTactic& t : legal) {
          if (t.isa != isa || t.exp2 != Exp2::kPoly4 || t.quant != (pv == kFp4 ? Quant::kLog : Quant::kLinear))
            continue;
          if (shape == nullptr) shape = &t;
          if (t.tile_q != shape->tile_q || t.tile_kv != shape->tile_kv) continue;
          for (const int threads : {1, 2, 3, 4}) {
            if (threads == 1 && t.split == AttentionSplit::kTiles) continue;
            const auto got = run_case(c, {to_string(t), threads});
            ASSERT_TRUE(got.ok());
            if (!first) first = *got;
            ASSERT_EQ(got->raw, first->raw) << describe(c, t) << " with " << threads << " threads, run " << runs;
            ASSERT_EQ(got->dense.lse, first->dense.lse) << describe(c, t) << " with " << threads << " threads";
            ++runs;
          }
        }
        ASSERT_NE(shape, nullptr) << to_string(isa);
      }
    }
  }
}

// The softmax of a row: every set gives the bits of the plain loops over numerics.h.
TEST(Attention, EverySetQuantisesTheSameBits) {
  constexpr int kCount = 512;
  std::mt19937 bits(11);
  std::normal_distribution<float> normal(0, 6);
  std::vector<float> scores(kCount);
  for (int i = 0; i < kCount; ++i) scores[static_cast<std::size_t>(i)] = i < 500 ? normal(bits) : -200.0F;
  // Exponents around those below which 2^x is 0: -126 and -127, in groups of their own and beside larger ones.
  for (int i = 96; i < 144; ++i)
    scores[static_cast<std::size_t>(i)] = -(124.5F + static_cast<float>(i - 96) / 16) / 0.75F;
  scores[7] = scores[8] = 0;
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    for (const Exp2 exp2 : {Exp2::kPoly3, Exp2::kPoly4, Exp2::kPoly5}) {
      for (const Quant quant : {Quant::kLinear, Quant::kLog}) {
        const auto row = [&](CpuIsa isa) {
          const attention::Kernels kernels = attention::find_kernels(isa, PForm{pv, quant, exp2});
          std::vector<float> s = scores, p(kCount);
          std::vector<Bf16> pairs(kCount);
          const bool f32 = kernels.element == attention::Element::kF32;
          const float m = kernels.softmax.scale_max(s.data(), 505, kCount, 0.75F);
          const float sum =
              kernels.softmax.probabilities(s.data(), kCount, m, f32 ? static_cast<void*>(p.data()) : pairs.data());
          for (int i = 0; i < kCount && !f32; ++i)
            p[static_cast<std::size_t>(i)] = to_f32(pairs[static_cast<std::size_t>(i)]);
          p.push_back(m);
          p.push_back(sum);
          return p;
        };
        const auto want = row(CpuIsa::kScalar);
        for (const CpuIsa isa : cpu_isas()) {
          if (isa > cpu_machine().best_isa) continue;
          EXPECT_EQ(row(isa), want) << to_string(isa);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pinch
