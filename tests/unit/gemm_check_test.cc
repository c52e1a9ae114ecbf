#include "workbench/check/gemm_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "pinch/gemm.h"

namespace pinch::check {
namespace {

constexpr std::int64_t kM = 20;
constexpr std::int64_t kN = 200;  // a whole block of columns and a partial one
constexpr std::int64_t kK = 256;
constexpr std::int64_t kReferenceRows = 4;

/// A right output, to plant faults in: the FP64 product, rounded to bf16.
class GemmCheckTest : public testing::Test {
 protected:
  GemmCheckTest() {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> w(kN * kK);
    std::generate(w.begin(), w.end(), [&] { return 0.02F * normal(random); });
    weights_ = *quantize_fp4(w, kN, kK, Fp4Format::kNvfp4);
    a_.resize(kM * kK);
    std::generate(a_.begin(), a_.end(), [&] { return to_bf16(normal(random)); });
    exact_.resize(kM * kN);
    EXPECT_TRUE(reference_gemm(weights_.view(), a_.data(), kK, kM, exact_.data(), kN).ok());
    for (const double value : exact_) out_.push_back(to_bf16(static_cast<float>(value)));
  }

  OutputVerdict verdict() {
    const auto check = GemmCheck::create(weights_.view(), a_, kM, OutputType::kBf16, kReferenceRows, /*seed=*/7);
    EXPECT_TRUE(check.ok());
    return check->compare(out_.data());
  }

  static constexpr std::int64_t at(std::int64_t row, std::int64_t column) { return row * kN + column; }

  Fp4Matrix weights_;
  std::vector<Bf16> a_;
  std::vector<double> exact_;
  std::vector<Bf16> out_;
};

TEST_F(GemmCheckTest, PassesTheProductRoundedToBf16) {
  const OutputVerdict result = verdict();
  EXPECT_TRUE(result.right) << result.why;
  EXPECT_GT(result.rel_l2, 1e-4);
  EXPECT_LT(result.rel_l2, 0x1p-8);
}

TEST_F(GemmCheckTest, PassesAnFp32Product) {
  std::vector<float> out(exact_.begin(), exact_.end());
  const auto check = GemmCheck::create(weights_.view(), a_, kM, OutputType::kF32, kReferenceRows, 7);
  const OutputVerdict result = check->compare(out.data());
  EXPECT_TRUE(result.right) << result.why;
  EXPECT_LT(result.rel_l2, 1e-7);
}

TEST_F(GemmCheckTest, PassesTheKernelOfTheLibrary) {
  const auto prepared = prepare_weights(weights_.view());
  ASSERT_TRUE(prepared.ok());
  ASSERT_TRUE(mm_bf16_fp4(*prepared, a_.data(), kK, kM, out_.data(), kN).ok());
  const OutputVerdict result = verdict();
  EXPECT_TRUE(result.right) << result.why;
}

TEST_F(GemmCheckTest, SeesOneElementOffByThreeUnitsInTheLastPlaceOfAReferenceRow) {
  out_[at(kM - 1, 3)].bits = static_cast<std::uint16_t>(out_[at(kM - 1, 3)].bits + 3);
  const OutputVerdict result = verdict();
  EXPECT_FALSE(result.right);
  EXPECT_THAT(result.why, testing::HasSubstr("out[19, 3]"));
}

TEST_F(GemmCheckTest, SeesAnElementThatWasNotWritten) {
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{5}, kM - 1}) {
    const Bf16 kept = out_[at(row, 150)];
    out_[at(row, 150)] = Bf16{0xffff};  // poison
    EXPECT_FALSE(verdict().right) << "row " << row;
    out_[at(row, 150)] = kept;
  }
}

TEST_F(GemmCheckTest, SeesAnInfinityWhereANumberBelongs) {
  out_[at(0, 0)] = to_bf16(std::numeric_limits<float>::infinity());
  const OutputVerdict result = verdict();
  EXPECT_FALSE(result.right);
  EXPECT_TRUE(std::isnan(result.rel_l2));
  EXPECT_THAT(result.why, testing::HasSubstr("out[0, 0] is inf"));
}

TEST_F(GemmCheckTest, SeesAZeroedElementInEveryRow) {
  for (std::int64_t row = 0; row < kM; ++row) {
    // The element nearest to the row's typical size, so that the fault is neither large nor invisible.
    double square = 0;
    for (std::int64_t j = 0; j < kN; ++j) square += exact_[at(row, j)] * exact_[at(row, j)];
    const double typical = std::sqrt(square / kN);
    std::int64_t column = 0;
    for (std::int64_t j = 0; j < kN; ++j) {
      if (std::abs(std::abs(exact_[at(row, j)]) - typical) < std::abs(std::abs(exact_[at(row, column)]) - typical)) {
        column = j;
      }
    }
    const Bf16 kept = out_[at(row, column)];
    out_[at(row, column)] = Bf16{0};
    EXPECT_FALSE(verdict().right) << "row " << row;
    out_[at(row, column)] = kept;
  }
}

TEST_F(GemmCheckTest, SeesARowThatBelongsToAnother) {
  std::copy_n(out_.begin() + at(6, 0), kN, out_.begin() + at(5, 0));
  EXPECT_FALSE(verdict().right);
}

TEST_F(GemmCheckTest, SeesActivationsRoundedToInt8) {
  // What peers with int8 activations do: the error is 0.5% of the whole, not of each element.
  std::vector<Bf16> rounded = a_;
  for (std::int64_t i = 0; i < kM; ++i) {
    float largest = 0;
    for (std::int64_t p = 0; p < kK; ++p) largest = std::max(largest, std::abs(to_f32(a_[i * kK + p])));
    const float step = largest / 127;
    for (std::int64_t p = 0; p < kK; ++p) {
      rounded[i * kK + p] = to_bf16(std::nearbyint(to_f32(a_[i * kK + p]) / step) * step);
    }
  }
  std::vector<double> product(kM * kN);
  ASSERT_TRUE(reference_gemm(weights_.view(), rounded.data(), kK, kM, product.data(), kN).ok());
  for (std::size_t i = 0; i < product.size(); ++i) out_[i] = to_bf16(static_cast<float>(product[i]));
  EXPECT_FALSE(verdict().right);
}

TEST_F(GemmCheckTest, SeesAScaleThatWasIgnored) {
  for (std::size_t i = 0; i < exact_.size(); ++i) out_[i] = to_bf16(static_cast<float>(exact_[i] / weights_.alpha));
  EXPECT_FALSE(verdict().right);
}

TEST_F(GemmCheckTest, OneRowIsComparedWhole) {
  const auto check = GemmCheck::create(weights_.view(), std::span(a_).first(kK), 1, OutputType::kBf16, 8, 7);
  ASSERT_TRUE(check.ok());
  EXPECT_TRUE(check->compare(out_.data()).right);
  out_[at(0, kN - 1)] = Bf16{0xffff};
  EXPECT_FALSE(check->compare(out_.data()).right);
}

}  // namespace
}  // namespace pinch::check
