#include "workbench/check/gemm_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "pinch/gemm.h"

namespace pinch::check {

namespace {

constexpr std::int64_t kRowBlock = 128;
constexpr double kLambda = 8;
constexpr double kF32Roundoff = 0x1p-24;

double roundoff(OutputType output) {
  return output == OutputType::kBf16 ? 0x1p-8 : kF32Roundoff;
}

double element(const void* out, OutputType output, std::int64_t index) {
  if (output == OutputType::kBf16) return to_f32(static_cast<const Bf16*>(out)[index]);
  return static_cast<const float*>(out)[index];
}

std::int64_t blocks_of(std::int64_t n) {
  return (n + kRowBlock - 1) / kRowBlock;
}

/// The first, the last and random rows in between, ascending.
std::vector<std::int64_t> choose_rows(std::int64_t m, std::int64_t count, std::mt19937_64& random) {
  std::vector<std::int64_t> inner(static_cast<std::size_t>(std::max<std::int64_t>(m - 2, 0)));
  std::iota(inner.begin(), inner.end(), std::int64_t{1});
  std::shuffle(inner.begin(), inner.end(), random);
  inner.resize(std::min(inner.size(), static_cast<std::size_t>(std::max<std::int64_t>(count - 2, 0))));
  inner.push_back(0);
  if (m > 1) inner.push_back(m - 1);
  std::sort(inner.begin(), inner.end());
  return inner;
}

}  // namespace

Result<GemmCheck> GemmCheck::create(const Fp4View& weights, std::span<const Bf16> a, std::int64_t m, OutputType output,
                                    std::int64_t reference_rows, std::uint64_t seed) {
  GemmCheck check;
  check.output_ = output;
  check.m_ = m;
  check.n_ = weights.n;
  check.k_ = weights.k;
  std::mt19937_64 random(seed);
  check.exact_rows_ = choose_rows(m, reference_rows, random);

  std::vector<Bf16> rows;
  for (const std::int64_t row : check.exact_rows_) {
    const auto source = a.subspan(static_cast<std::size_t>(row * weights.k), static_cast<std::size_t>(weights.k));
    rows.insert(rows.end(), source.begin(), source.end());
  }
  const auto exact = static_cast<std::int64_t>(check.exact_rows_.size());
  check.reference_.resize(static_cast<std::size_t>(exact * weights.n));
  check.magnitude_.resize(check.reference_.size());
  PINCH_TRY(reference_gemm(weights, rows.data(), weights.k, exact, check.reference_.data(), weights.n,
                           check.magnitude_.data()));

  for (std::int64_t row = 0; row < m; ++row) {
    if (!std::binary_search(check.exact_rows_.begin(), check.exact_rows_.end(), row)) {
      check.projected_rows_.push_back(row);
    }
  }
  if (check.projected_rows_.empty()) return check;
  check.sign_.resize(static_cast<std::size_t>(weights.n));
  std::generate(check.sign_.begin(), check.sign_.end(), [&] { return random() % 2 == 0 ? 1.0 : -1.0; });
  check.project(weights, a);
  return check;
}

void GemmCheck::project(const Fp4View& weights, std::span<const Bf16> a) {
  const auto k = static_cast<std::size_t>(k_);
  const auto blocks = static_cast<std::size_t>(blocks_of(n_));
  const double alpha = weights.alpha;
  std::vector<double> signed_sums(k * blocks);  // [k, blocks]: the row loop below then runs along blocks
  std::vector<double> squares(blocks);          // of the weights of a block
  std::vector<Bf16> row(k);
  for (std::int64_t j = 0; j < n_; ++j) {
    dequantize_row(weights, j, std::span<Bf16>(row));
    const auto block = static_cast<std::size_t>(j / kRowBlock);
    const double sign = sign_[static_cast<std::size_t>(j)] * alpha;
    for (std::size_t kk = 0; kk < k; ++kk) {
      const double weight = to_f32(row[kk]);
      signed_sums[kk * blocks + block] += sign * weight;
      squares[block] += weight * weight * alpha * alpha;
    }
  }
  projection_.assign(projected_rows_.size() * blocks, 0.0);
  rounding_.resize(projection_.size());
  for (std::size_t i = 0; i < projected_rows_.size(); ++i) {
    const Bf16* source = a.data() + projected_rows_[i] * k_;
    double* sums = projection_.data() + i * blocks;
    double a_square = 0;
    for (std::size_t kk = 0; kk < k; ++kk) {
      const double value = to_f32(source[kk]);
      a_square += value * value;
      const double* column = signed_sums.data() + kk * blocks;
      for (std::size_t block = 0; block < blocks; ++block) sums[block] += value * column[block];
    }
    for (std::size_t block = 0; block < blocks; ++block) {
      // sum|a w| <= |a| |w| (Cauchy-Schwarz), and the errors of a block's columns add in the square.
      rounding_[i * blocks + block] =
          std::sqrt(static_cast<double>(k_)) * kF32Roundoff * std::sqrt(a_square * squares[block]);
    }
  }
}

OutputVerdict GemmCheck::compare(const void* out) const {
  OutputVerdict verdict;
  std::optional<std::string> fault = compare_reference_rows(out, verdict.rel_l2);
  if (!fault) fault = compare_projections(out);
  verdict.right = !fault.has_value();
  if (fault) verdict.why = *fault;
  return verdict;
}

std::optional<std::string> GemmCheck::compare_reference_rows(const void* out, double& rel_l2) const {
  const double sums = kLambda * std::sqrt(static_cast<double>(k_)) * kF32Roundoff;
  double error_square = 0;
  double reference_square = 0;
  double worst = 1;  // error over tolerance
  std::optional<std::string> fault;
  for (std::size_t i = 0; i < exact_rows_.size(); ++i) {
    for (std::int64_t j = 0; j < n_; ++j) {
      const std::size_t at = i * static_cast<std::size_t>(n_) + static_cast<std::size_t>(j);
      const double got = element(out, output_, exact_rows_[i] * n_ + j);
      const double expected = reference_[at];
      if (std::isfinite(got) != std::isfinite(expected)) {
        rel_l2 = std::nan("");
        return fmt::format("out[{}, {}] is {}, expected {:.6g}", exact_rows_[i], j, got, expected);
      }
      const double error = std::abs(got - expected);
      error_square += error * error;
      reference_square += expected * expected;
      const double tolerance = roundoff(output_) * std::abs(expected) + sums * magnitude_[at] + 0x1p-126;
      if (error > worst * tolerance) {
        worst = error / tolerance;
        fault = fmt::format("out[{}, {}] is {:.6g}, expected {:.6g}: {:.3g} times the tolerance", exact_rows_[i], j,
                            got, expected, worst);
      }
    }
  }
  rel_l2 = reference_square > 0 ? std::sqrt(error_square / reference_square) : std::sqrt(error_square);
  return fault;
}

std::optional<std::string> GemmCheck::compare_projections(const void* out) const {
  const std::int64_t blocks = blocks_of(n_);
  for (std::size_t i = 0; i < projected_rows_.size(); ++i) {
    const std::int64_t row = projected_rows_[i];
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::size_t at = i * static_cast<std::size_t>(blocks) + static_cast<std::size_t>(block);
      const std::int64_t end = std::min(n_, (block + 1) * kRowBlock);
      double sum = 0;
      double square = 0;
      for (std::int64_t j = block * kRowBlock; j < end; ++j) {
        const double got = element(out, output_, row * n_ + j);
        sum += sign_[static_cast<std::size_t>(j)] * got;
        square += got * got;
      }
      const double tolerance = kLambda * (roundoff(output_) * std::sqrt(square) + rounding_[at]) + 0x1p-126;
      if (!(std::abs(sum - projection_[at]) <= tolerance)) {  // a NaN or an infinity is not within it
        return fmt::format("row {}, columns {} to {}: signed sum is {:.6g}, expected {:.6g} within {:.3g}", row,
                           block * kRowBlock, end - 1, sum, projection_[at], tolerance);
      }
    }
  }
  return std::nullopt;
}

}  // namespace pinch::check
