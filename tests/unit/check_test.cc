// Comparison, gates, flake statistics and bisection, each shown failing on a planted fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "pinch/formats.h"
#include "pinch/npy.h"
#include "tests/support/temp_folder.h"
#include "workbench/check/bisect.h"
#include "workbench/check/compare.h"
#include "workbench/check/flake.h"
#include "workbench/check/gate.h"
#include "workbench/check/inputs.h"
#include "workbench/check/sha256.h"

namespace pinch::check {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Arrays : public testing::Test {
 protected:
  Array array(const std::vector<double>& values, Shape shape, DType dtype = DType::kF32) {
    const std::string path = folder_ / (std::to_string(count_++) + ".bin");
    std::ofstream file(path, std::ios::binary);
    for (const double value : values) {
      const auto single = static_cast<float>(value);
      const auto half = to_bf16(single).bits;
      if (dtype == DType::kF64) file.write(reinterpret_cast<const char*>(&value), 8);
      if (dtype == DType::kF32) file.write(reinterpret_cast<const char*>(&single), 4);
      if (dtype == DType::kBf16) file.write(reinterpret_cast<const char*>(&half), 2);
    }
    file.close();
    auto opened = Array::open(path, {}, Array::Layout{dtype, std::move(shape)});
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    return *opened;
  }
  std::vector<double> random(std::size_t count, unsigned seed = 1) {
    std::mt19937 generator(seed);
    std::normal_distribution<> normal;
    std::vector<double> values(count);
    for (double& value : values) value = normal(generator);
    return values;
  }
  TempFolder folder_;
  int count_ = 0;
};

using Compare = Arrays;
using GateTest = Arrays;

TEST(Sha256, IsTheStandards) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Compare, EqualArraysAreBitwiseEqual) {
  const auto a = random(64);
  const auto d = difference(array(a, {8, 8}), array(a, {8, 8}));
  ASSERT_TRUE(d.ok());
  EXPECT_TRUE(d->bitwise);
  EXPECT_EQ(d->differing, 0);
  EXPECT_EQ(d->rel_l2, 0);
  EXPECT_NEAR(d->cosine, 1, 1e-12);
  EXPECT_EQ(d->ulps[0], 64);
  EXPECT_EQ(d->pattern, "");
}

TEST_F(Compare, MeasuresAKnownDifference) {
  const auto d = difference(array({3, 4, 0, 1}, {2, 2}), array({3, 4, 0, 0}, {2, 2}));
  ASSERT_TRUE(d.ok());
  EXPECT_DOUBLE_EQ(d->rel_l2, 1.0 / 5);
  EXPECT_DOUBLE_EQ(d->max_abs, 1);
  EXPECT_THAT(d->worst, ElementsAre(1, 1));
  EXPECT_DOUBLE_EQ(d->cosine, 25 / std::sqrt(25.0 * 26));
  EXPECT_EQ(d->pattern, "one element: row 1, column 1");
}

TEST_F(Compare, HoldsOverTheWholeRangeOfDoubles) {
  for (const double size : {1e-200, 1e200}) {
    const auto d = difference(array({3 * size, 4 * size, 0, 1 * size}, {2, 2}, DType::kF64),
                              array({3 * size, 4 * size, 0, 0}, {2, 2}, DType::kF64));
    ASSERT_TRUE(d.ok());
    EXPECT_NEAR(d->rel_l2, 1.0 / 5, 1e-12) << size;
    EXPECT_NEAR(d->cosine, 25 / std::sqrt(25.0 * 26), 1e-12) << size;
  }
}

TEST_F(Compare, CountsUnitsInTheLastPlace) {
  const float one = 1.0F;
  const double next = std::nextafter(one, 2.0F);
  const auto d = difference(array({1, next, 1 + 8 * (next - 1)}, {3}), array({1, 1, 1}, {3}));
  EXPECT_THAT(d->ulps, ElementsAre(1, 1, 0, 0, 1, 0, 0));
}

TEST_F(Compare, ComparesMasksFirst) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto d = difference(array({nan, inf, -inf, 9}, {4}), array({nan, inf, inf, 1}, {4}));
  EXPECT_EQ(d->mask_differs, 1);
  EXPECT_THAT(d->worst, ElementsAre(2)) << "before the element that is 8 off";
  EXPECT_DOUBLE_EQ(d->max_abs, 8);
}

TEST_F(Compare, NamesThePattern) {
  const auto pattern = [&](const std::function<bool(int, int)>& hit, int rows = 64, int columns = 64) {
    std::vector<double> a(static_cast<std::size_t>(rows * columns), 1), b = a;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        if (hit(row, column)) b[static_cast<std::size_t>(row * columns + column)] = 2;
      }
    }
    return difference(array(b, {rows, columns}), array(a, {rows, columns}))->pattern;
  };
  EXPECT_EQ(pattern([](int, int) { return true; }), "every element");
  EXPECT_EQ(pattern([](int row, int) { return row == 7; }), "one row: 7");
  EXPECT_EQ(pattern([](int row, int column) { return row == 7 && column % 5 == 0; }), "one row: 7");
  EXPECT_EQ(pattern([](int, int column) { return column == 9; }), "one column: 9");
  EXPECT_EQ(pattern([](int row, int column) { return row == 3 && column / 16 == 2; }),
            "one group of 16: row 3, columns 32 to 47");
  EXPECT_EQ(pattern([](int row, int column) { return row / 16 == 1 && column / 16 == 2; }),
            "one tile: rows 16 to 31, columns 32 to 47");
  EXPECT_EQ(pattern([](int row, int) { return row % 16 == 15; }), "tile-periodic: 1 of every 16 rows");
  EXPECT_EQ(pattern([](int row, int column) { return row % 8 < 2 && column % 32 == 0; }),
            "tile-periodic: 2 of every 8 rows, 1 of every 32 columns");
  EXPECT_THAT(pattern([](int row, int column) { return (row * 37 + column * 11) % 101 == 0; }),
              StartsWith("scattered: "));
}

TEST_F(Compare, ReadsEveryFormat) {
  for (const char* name : {"bf16", "f16", "f32", "f64", "e4m3", "e5m2", "e2m1", "u8"}) {
    const DType type = *parse_type(name);
    const auto saved =
        save_generated(folder_.path(), std::string("x_") + name, type, {4, 16}, Distribution::kNormal, 1);
    ASSERT_TRUE(saved.ok()) << saved.error().message();
    const auto read = Array::open(saved->path);
    ASSERT_TRUE(read.ok()) << read.error().message();
    EXPECT_EQ(read->view().dtype, type);
    std::vector<double> values(64);
    read->values(0, values);
    double sum2 = 0;
    for (const double value : values) {
      EXPECT_LT(std::abs(value), 7) << name;
      sum2 += value * value;
    }
    EXPECT_NEAR(sum2 / 64, type == DType::kU8 ? 0.4 : 1, 0.5) << name;
    const auto again =
        save_generated(folder_.path(), std::string("x_") + name, type, {4, 16}, Distribution::kNormal, 1);
    EXPECT_EQ(again->sha256, saved->sha256);
    const auto other =
        save_generated(folder_.path(), std::string("x_") + name, type, {4, 16}, Distribution::kNormal, 2);
    EXPECT_NE(other->sha256, saved->sha256);
  }
}

TEST_F(Compare, RefusesWhatDoesNotFit) {
  EXPECT_THAT(difference(array({1, 2}, {2}), array({1, 2}, {2, 1})).error().text, HasSubstr("shapes differ"));
  std::ofstream(folder_ / "raw.bin") << "abc";
  EXPECT_THAT(Array::open(folder_ / "raw.bin").error().text, HasSubstr("must be given"));
  EXPECT_THAT(Array::open(folder_ / "raw.bin", {}, Array::Layout{DType::kF32, {1}}).error().text,
              HasSubstr("size_mismatch"));
}

TEST_F(GateTest, ReorderIsBitwise) {
  auto values = random(256);
  const auto a = array(values, {16, 16});
  EXPECT_TRUE(judge(Change::kReorder, a, array(values, {16, 16}), nullptr)->passed);
  values[17] = std::nextafter(static_cast<float>(values[17]), 10.0F);
  const auto gate = judge(Change::kReorder, a, array(values, {16, 16}), nullptr);
  EXPECT_FALSE(gate->passed);
  EXPECT_THAT(gate->reason, HasSubstr("1 of 256 elements differ (one element: row 1, column 1)"));
}

// bf16 results whose rounding errors are drawn anew, `scale` times as large.
std::vector<double> noisy(const std::vector<double>& exact, double scale, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<> unit(-1, 1);
  std::vector<double> values = exact;
  for (double& value : values) value *= 1 + scale * unit_roundoff(DType::kBf16) * unit(generator);
  return values;
}

TEST_F(GateTest, AlgebraHoldsTheErrorAgainstTheBaselines) {
  const auto exact = random(4096);
  const auto reference = array(exact, {64, 64}, DType::kF64);
  const auto baseline = array(noisy(exact, 1, 2), {64, 64});
  const auto passes = [&](const std::vector<double>& candidate) {
    return *judge(Change::kAlgebra, baseline, array(candidate, {64, 64}), &reference, {DType::kBf16, 4096});
  };
  EXPECT_TRUE(passes(noisy(exact, 1, 3)).passed) << passes(noisy(exact, 1, 3)).reason;
  EXPECT_TRUE(passes(noisy(exact, 0.5, 3)).passed);
  const Gate worse = passes(noisy(exact, 1.3, 3));
  EXPECT_FALSE(worse.passed);
  EXPECT_THAT(worse.reason, StartsWith("relative: "));
  auto one_off = noisy(exact, 0.3, 3);
  one_off[100] += 0.2;
  EXPECT_FALSE(passes(one_off).passed) << "one element is far off, and the norm hides it";
  auto with_nan = noisy(exact, 1, 3);
  with_nan[5] = std::nan("");
  EXPECT_THAT(passes(with_nan).reason, StartsWith("masks: 1 elements"));
}

// Of 200 candidates as noisy as the baseline 5 are refused by chance, with a standard deviation of 2.2.
TEST_F(GateTest, EquallyNoisyOnesPassWhereRowsAreFew) {
  for (const Shape& shape : {Shape{4096}, Shape{1, 4096}, Shape{4, 1024}, Shape{1, 64}}) {
    const auto count = static_cast<std::size_t>(*element_count(shape));
    const auto exact = random(count);
    const auto reference = array(exact, shape, DType::kF64);
    int refused = 0, worse_refused = 0;
    for (unsigned seed = 0; seed < 200; ++seed) {
      const auto baseline = array(noisy(exact, 1, 2 * seed + 1), shape);
      const auto refuses = [&](double scale) {
        const auto candidate = array(noisy(exact, scale, 2 * seed + 2), shape);
        const Gate gate = *judge(Change::kAlgebra, baseline, candidate, &reference, {DType::kBf16, 4096});
        return !gate.passed && gate.reason.compare(0, 9, "relative:") == 0;
      };
      refused += refuses(1) ? 1 : 0;
      if (seed < 20) worse_refused += refuses(count >= 4096 ? 1.3 : 3) ? 1 : 0;
    }
    EXPECT_LE(refused, 14) << pinch::to_string(shape);
    EXPECT_GE(worse_refused, 19) << pinch::to_string(shape);
  }
  const auto few = array({1, 2, 3}, {3}), reference = array({1, 2, 3.00001}, {3}, DType::kF64);
  const Gate gate = *judge(Change::kAlgebra, few, few, &reference);
  EXPECT_TRUE(gate.passed);
  EXPECT_FALSE(gate.excess);
  EXPECT_THAT(gate.reason, HasSubstr("too few elements"));
}

TEST_F(GateTest, TwoThatAreEquallyWrongDoNotPass) {
  const auto exact = random(4096);
  auto wrong = exact;
  for (std::size_t i = 0; i < wrong.size(); i += 2) wrong[i] *= 1.5;
  const auto reference = array(exact, {64, 64}, DType::kF64);
  const auto baseline = array(wrong, {64, 64}), candidate = array(wrong, {64, 64});
  const auto gate = judge(Change::kAlgebra, baseline, candidate, &reference);
  EXPECT_FALSE(gate->passed);
  EXPECT_THAT(gate->reason, StartsWith("absolute: "));
  EXPECT_THAT(gate->reason, HasSubstr("the baseline is too"));
}

TEST(Flake, CountsWhatRunsCanTell) {
  EXPECT_EQ(runs_needed(0.05, 0.95), 59);
  EXPECT_EQ(runs_needed(0.5, 0.75), 2);
  EXPECT_NEAR(missed_probability(0.05, 20), 0.358, 0.001);
  EXPECT_NEAR(rate_upper(0, 59, 0.95), 0.0495, 0.0005);
  EXPECT_NEAR(rate_upper(0, 20, 0.95), 0.1391, 0.0005);
  EXPECT_NEAR(rate_upper(1, 20, 0.95), 0.2161, 0.0005);  // table of Clopper and Pearson
  EXPECT_EQ(rate_upper(5, 5, 0.95), 1);
  EXPECT_NEAR(fisher_p(0, 10, 5, 10), 0.0163, 0.0001);
  EXPECT_NEAR(fisher_p(1, 10, 11, 14), 0.001379728, 1e-8);  // the 2x2 table that textbooks work out
}

TEST(Flake, ClustersAndJudges) {
  const Flake clean = cluster(std::vector<std::string>(20, "a"));
  EXPECT_EQ(verdict(clean, std::nullopt), "stable");
  std::vector<std::string> results(20, "a");
  results[3] = "b";
  results[9] = "c";
  const Flake flaky = cluster(results);
  EXPECT_EQ(flaky.differing, 2);
  EXPECT_EQ(flaky.clusters.size(), 3U);
  EXPECT_EQ(verdict(flaky, std::nullopt), "flaky");
  EXPECT_EQ(verdict(flaky, flaky), "pre_existing");
  EXPECT_EQ(verdict(flaky, clean), "undecided") << "2 of 20 against 0 of 20 may be luck";
  Flake often{20, {}, 9};
  EXPECT_EQ(verdict(often, clean), "new");
}

TEST(Bisect, FindsTheDifferencesThatMatter) {
  for (const std::vector<std::size_t>& needed : {std::vector<std::size_t>{3}, {0, 7}, {2, 5, 6}}) {
    const auto result = bisect(9, 0.05, [&](const std::vector<std::size_t>& on) -> Result<bool> {
      return std::all_of(needed.begin(), needed.end(),
                         [&](std::size_t each) { return std::find(on.begin(), on.end(), each) != on.end(); });
    });
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->needed, needed);
    EXPECT_EQ(result->repeats, 1);
  }
}

TEST(Bisect, StatesItsErrorRateForAFlakyFault) {
  int right = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);  // its sequence is the same everywhere
    const auto result = bisect(8, 0.05, [&](const std::vector<std::size_t>& on) -> Result<bool> {
      const bool armed =
          std::find(on.begin(), on.end(), 4U) != on.end() && std::find(on.begin(), on.end(), 1U) != on.end();
      return armed && random() % 10 < 3;
    });
    if (!result.ok()) continue;  // the 20 probes missed it: 0.08%
    EXPECT_LE(result->error_rate, 0.05);
    EXPECT_GT(result->error_rate, 0.025) << "half of it is the doubt of the rate";
    right += result->needed == std::vector<std::size_t>{1, 4} ? 1 : 0;
  }
  EXPECT_GE(right, 95);
}

TEST(Bisect, DoesNotTrustALuckyRate) {
  // Fails in 12 of the first 20 runs, then in 1 of 12: the 6 repeats of a rate of 0.6 would take the culprit for
  // innocent.
  int calls = 0;
  const auto result = bisect(2, 0.05, [&](const std::vector<std::size_t>& on) -> Result<bool> {
    const bool armed = std::find(on.begin(), on.end(), 1U) != on.end();
    if (!armed) return false;
    ++calls;
    return calls <= 20 ? calls % 5 < 3 : calls % 12 == 0;
  });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->failure_rate, 0.6);
  EXPECT_GE(result->repeats, 12);
  EXPECT_EQ(result->needed, std::vector<std::size_t>{1});
}

TEST(Bisect, RunsARareFaultUntilItsRateIsKnown) {
  int calls = 0;
  const auto result = bisect(
      1, 0.05, [&](const std::vector<std::size_t>& on) -> Result<bool> { return !on.empty() && ++calls % 10 == 0; });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->failure_rate, 0.1) << "8 failures of 80 runs";
}

TEST(Bisect, RefusesWhatItCannotSearch) {
  EXPECT_THAT(bisect(3, 0.05, [](const auto&) -> Result<bool> { return false; }).error().text,
              HasSubstr("did not fail in 20"));
  EXPECT_THAT(bisect(3, 0.05, [](const auto&) -> Result<bool> { return true; }).error().text, HasSubstr("fails too"));
}

}  // namespace
}  // namespace pinch::check
