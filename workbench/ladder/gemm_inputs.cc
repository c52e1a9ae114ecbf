#include "workbench/ladder/gemm_inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "workbench/measure/limits.h"

namespace pinch::ladder {

namespace {

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): neighbouring numbers become unrelated ones.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

Result<Fp4Matrix> random_weights(Fp4Format format, std::int64_t n, std::int64_t k, std::uint64_t seed) {
  PINCH_TRY(validate_fp4_shape(format, n, k));
  PINCH_TRY(check_memory({1, n, k, format, OutputType::kBf16}, 0));
  Fp4Matrix weights;
  weights.format = format;
  weights.n = n;
  weights.k = k;
  weights.codes.resize(static_cast<std::size_t>(n * (k / 2)));
  weights.scales.resize(static_cast<std::size_t>(scale_bytes(weights.scale_layout, n, k / group_size(format))));
  for (std::size_t i = 0; i < weights.codes.size(); ++i) weights.codes[i] = static_cast<std::uint8_t>(mix(seed + i));
  const bool nvfp4 = format == Fp4Format::kNvfp4;
  for (std::size_t i = 0; i < weights.scales.size(); ++i) {
    // E4M3 from 2^3 up to its largest finite 448, or 2^-8 .. 2^-1: the scales of one tensor, a few binades apart.
    const std::uint64_t random = mix(~seed + i);
    weights.scales[i] = static_cast<std::uint8_t>(nvfp4 ? 0x50 + random % 0x2f : 119 + random % 8);
  }
  if (nvfp4) weights.alpha = 0x1p-14F;
  return weights;
}

std::vector<Bf16> random_activations(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> values(static_cast<std::size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return to_bf16(normal(random)); });
  return values;
}

Fp4Matrix other_weights(const Fp4Matrix& weights, std::uint64_t variant) {
  Fp4Matrix other = weights;
  const std::uint64_t flip = mix(variant);
  std::size_t i = 0;
  for (; i + sizeof flip <= other.codes.size(); i += sizeof flip) {
    std::uint64_t word = 0;
    std::memcpy(&word, &other.codes[i], sizeof word);
    word ^= flip;  // every nibble is an E2M1 number, so any change of codes is valid
    std::memcpy(&other.codes[i], &word, sizeof word);
  }
  for (; i < other.codes.size(); ++i) other.codes[i] ^= static_cast<std::uint8_t>(flip);
  return other;
}

Result<void> check_memory(const GemmProblem& problem, std::size_t extra_bytes) {
  const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n),
               k = static_cast<double>(problem.k);
  // Activations bf16; two outputs (the kernel's and a peer's); weights as codes, prepared, and once as FP64 column
  // sums.
  const double bytes = 2 * m * k + 2 * 4 * m * n + 2 * 0.5625 * n * k + n * k / 16 + static_cast<double>(extra_bytes);
  const auto available = static_cast<double>(measure::available_memory_bytes());
  if (available == 0 || bytes <= 0.8 * available) return {};
  return Error{ErrorCode::kOutOfMemory,
               fmt::format("m {} n {} k {} needs about {:.1f} GiB and {:.1f} GiB are free; give smaller sizes",
                           problem.m, problem.n, problem.k, bytes / 0x1p30, available / 0x1p30),
               "problem"};
}

Result<PreparedSet> PreparedSet::create(Fp4Matrix weights, std::size_t cold_bytes) {
  PreparedSet set(std::move(weights));
  PINCH_ASSIGN(warm, prepare_weights(set.weights_.view()));
  set.prepared_.push_back(std::move(warm));
  if (cold_bytes == 0) return set;
  const std::size_t count = std::max<std::size_t>(2, (cold_bytes - 1) / set.warm().bytes() + 1);
  for (std::size_t variant = 1; variant <= count; ++variant) {
    PINCH_ASSIGN(other, prepare_weights(other_weights(set.weights_, variant).view()));
    set.prepared_.push_back(std::move(other));
  }
  return set;
}

std::size_t PreparedSet::cold_bytes() const {
  std::size_t bytes = 0;
  for (const PreparedWeights& weights : cold()) bytes += weights.bytes();
  return bytes;
}

}  // namespace pinch::ladder
