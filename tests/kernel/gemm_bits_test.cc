// Where a kernel's sums are defined to the bit, a scalar emulation of its instructions gives the same bits.
#include <gtest/gtest.h>

#include <bit>

#include "tests/kernel/gemm_cases.h"

namespace pinch {
namespace {

using namespace test;  // NOLINT

constexpr Fp4Format kNv = Fp4Format::kNvfp4, kMx = Fp4Format::kMxfp4;

float flush(float x) {
  return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x;
}

// VDPBF16PS: the odd element first, each step rounded, subnormal inputs and results flushed.
float dot_pair(float sum, float a_even, float w_even, float a_odd, float w_odd) {
  const float odd = flush(std::fma(flush(a_odd), flush(w_odd), flush(sum)));
  return flush(std::fma(flush(a_even), flush(w_even), odd));
}

struct Row {
  std::vector<float> code, scale;  // of each column
};
Row channel(const Fp4Matrix& w, std::int64_t j) {
  Row row;
  const std::int64_t group = group_size(w.format);
  for (std::int64_t p = 0; p < w.k; ++p) {
    const unsigned byte = w.codes[static_cast<std::size_t>((j * w.k + p) / 2)];
    row.code.push_back(to_f32(E2m1{static_cast<std::uint8_t>(p % 2 != 0 ? byte >> 4 : byte & 15U)}));
    const std::uint8_t scale = w.scales[static_cast<std::size_t>(j * (w.k / group) + p / group)];
    row.scale.push_back(w.format == kNv ? to_f32(E4m3{scale}) : to_f32(Ue8m0{scale}));
  }
  return row;
}

float emulate(const CpuTactic& t, const Fp4Matrix& w, const Row& row, const Bf16* a) {
  float sum = 0;
  if (t.path == GemmPath::kPanel) {
    for (std::size_t p = 0; p < row.code.size(); p += 2) {
      sum =
          dot_pair(sum, to_f32(a[p]), row.code[p] * row.scale[p], to_f32(a[p + 1]), row.code[p + 1] * row.scale[p + 1]);
    }
    return sum * w.alpha;
  }
  const auto group = static_cast<std::size_t>(group_size(w.format));
  for (std::size_t first = 0; first < row.code.size(); first += group) {
    float partial = 0;
    for (std::size_t p = first; p < first + group; p += 2) {
      partial = dot_pair(partial, to_f32(a[p]), row.code[p], to_f32(a[p + 1]), row.code[p + 1]);
    }
    sum = std::fma(partial, row.scale[first], sum);
  }
  return sum * w.alpha;
}

struct Case {
  std::int64_t m, n, k;
  Fp4Format format;
};

// Activations over the whole exponent range of use, subnormals among them.
std::vector<Bf16> wide_activations(std::int64_t count, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::vector<Bf16> a(static_cast<std::size_t>(count));
  for (Bf16& x : a) {
    const auto exponent = bits() % 8 == 0 ? bits() % 4 : 100 + bits() % 40;
    x.bits = static_cast<std::uint16_t>((bits() & 0x807fU) | exponent << 7);
  }
  return a;
}

TEST(GemmBits, Avx512Bf16IsTheScalarEmulation) {
  if (!cpu_choice()->allows(CpuIsa::kAvx512Bf16)) GTEST_SKIP() << "this CPU, or PINCH_CPU, has no avx512_bf16";
  for (const Case& s : {Case{1, 37, 272, kNv}, Case{9, 70, 320, kMx}, Case{13, 49, 1040, kNv}}) {
    const Fp4Matrix w = random_weights(s.format, s.n, s.k, 11);
    const auto a = wide_activations(s.m * s.k, 12);
    const auto weights = prepare_weights(w.view());
    ASSERT_TRUE(weights.ok());
    std::vector<Row> rows;
    for (std::int64_t j = 0; j < s.n; ++j) rows.push_back(channel(w, j));
    for (const CpuTactic& t : cpu_tactics()) {
      Resources resources;
      resources.threads = 2;
      if (t.isa != CpuIsa::kAvx512Bf16 || illegal(t, {s.m, s.n, s.k, s.format, OutputType::kF32}, resources)) continue;
      const auto r = run_poisoned(*weights, a, s.k, s.m, {to_string(t), 2, OutputType::kF32}, s.n);
      ASSERT_TRUE(r.ok()) << r.error().message();
      int differ = 0;
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          const float want = emulate(t, w, rows[static_cast<std::size_t>(j)], a.data() + i * s.k);
          differ += std::bit_cast<std::uint32_t>(want) !=
                    std::bit_cast<std::uint32_t>(r->out[static_cast<std::size_t>(i * s.n + j)]);
        }
      }
      EXPECT_EQ(differ, 0) << to_string(t) << " k=" << s.k;
    }
  }
}

// The emulation can tell: with the even element first, or without the flush, sums differ.
TEST(GemmBits, OrderAndFlushOfTheEmulationMatter) {
  const float big = 0x1p30F, one = 1.0F, small = 0x1p-20F;
  EXPECT_NE(std::fma(one, small, std::fma(big, one, -big)), dot_pair(-big, one, small, small, one));
  EXPECT_EQ(dot_pair(0.0F, 0x1p-100F, 0x1p-30F, 0.0F, 0.0F), 0.0F);
}

// BF16 results are the FP32 results of the same tactic, rounded once.
TEST(GemmBits, Bf16OutputIsTheRoundedF32Output) {
  const std::int64_t m = 13, n = 70, k = 352;
  const Fp4Matrix w = random_weights(kMx, n, k, 21);
  const auto a = random_activations(m, k, 22);
  const auto weights = prepare_weights(w.view());
  ASSERT_TRUE(weights.ok());
  for (const CpuTactic& t : cpu_tactics()) {
    Resources resources;
    resources.threads = 2;
    if (illegal(t, {m, n, k, kMx, OutputType::kF32}, resources)) continue;
    const auto exact = run_poisoned(*weights, a, k, m, {to_string(t), 2, OutputType::kF32}, n);
    const auto rounded = run_poisoned(*weights, a, k, m, {to_string(t), 2, OutputType::kBf16}, n);
    ASSERT_TRUE(exact.ok() && rounded.ok());
    for (std::size_t i = 0; i < exact->out.size(); ++i) {
      ASSERT_EQ(rounded->out[i], to_f32(to_bf16(exact->out[i]))) << to_string(t) << " element " << i;
    }
  }
}

// A tactic's sums do not depend on who computes them, nor on what the workspace held before.
TEST(GemmBits, ResultsAreTheSameForEveryThreadCountAndRun) {
  const std::int64_t m = 77, n = 200, k = 544;
  const Fp4Matrix w = random_weights(kMx, n, k, 31);
  const auto a = random_activations(m, k, 32);
  const auto weights = prepare_weights(w.view());
  ASSERT_TRUE(weights.ok());
  for (const CpuTactic& t : cpu_tactics()) {
    Resources resources;
    resources.threads = 7;
    if (illegal(t, {m, n, k, kMx, OutputType::kF32}, resources)) continue;
    const auto first = run_poisoned(*weights, a, k, m, {to_string(t), 2, OutputType::kF32}, n);
    ASSERT_TRUE(first.ok());
    for (const int threads : {2, 3, 7}) {
      const auto again = run_poisoned(*weights, a, k, m, {to_string(t), threads, OutputType::kF32}, n);
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(std::memcmp(first->out.data(), again->out.data(), first->out.size() * 4), 0)
          << to_string(t) << " with " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace pinch
