#include "pinch/fp4.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "pinch/assert.h"

namespace pinch {
namespace {

constexpr float kLargestGlobalScale = 0x1p126F;
constexpr std::uint8_t kLargestMxScale = 252;  // 2^125: 6 * 2^126 would overflow bf16

std::uint32_t magnitude_bits(float value) {
  return detail::f32_to_bits(value) & detail::kF32Magnitude;
}

std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
  return detail::select(detail::less(a, b), b, a);
}

/// Bits of the largest magnitude; magnitudes order like their bits, and every NaN or infinity above the finite ones.
/// Eight running maxima of signed integers, joined without branches, so that baseline x86 vectorises it.
std::uint32_t amax_bits(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  std::uint32_t lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = larger(lanes[lane], magnitude_bits(values[i + lane]));
    }
  }
  for (; i < values.size(); ++i) lanes[0] = larger(lanes[0], magnitude_bits(values[i]));
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] = larger(lanes[lane], lanes[lane + half]);
  }
  return lanes[0];
}

Error not_finite(std::span<const float> rows, std::int64_t k, std::int64_t first_row) {
  const auto bad = std::find_if(rows.begin(), rows.end(), [](float value) { return !std::isfinite(value); });
  const auto position = static_cast<std::int64_t>(bad - rows.begin());
  return {ErrorCode::kInvalidArgument,
          fmt::format("weight is {}; FP4 has neither NaN nor infinity: repair or leave out this tensor", *bad),
          fmt::format("row {}, column {}", first_row + position / k, position % k)};
}

Error wrong_size(std::string_view what, std::size_t given, std::int64_t wanted, std::string_view shape) {
  return {ErrorCode::kInvalidArgument, fmt::format("{} has {} elements; {} needs {}", what, given, shape, wanted), {}};
}

Result<void> check_columns(Fp4Format format, std::int64_t k) {
  const std::int64_t group = group_size(format);
  if (k >= 1 && k <= kMaxFp4Dimension && k % group == 0) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("k = {}; {} needs a multiple of {} in {} .. {}: pad the columns with zeros", k,
                           to_string(format), group, group, kMaxFp4Dimension),
               "k"};
}

/// How the elements of one group become codes: e2m1(w * multiplier / divisor). A zero multiplier gives codes of zero.
struct GroupScale {
  std::uint8_t code = 0;
  float multiplier = 0.0F;
  float divisor = 1.0F;
};

GroupScale nvfp4_scale(std::uint32_t group_amax_bits, float global_scale) {
  const E4m3 scale = to_e4m3(std::bit_cast<float>(group_amax_bits) * global_scale / kE2m1Max);
  if (scale.bits == 0) return {};
  return {scale.bits, global_scale, to_f32(scale)};
}

/// The code of floor(log2(amax)) - 2 is the exponent field of amax less 2; subnormals, whose field is 0, end at 2^-127
/// too. Multiplying by the reciprocal is exact and, unlike 2^-127, no reciprocal is a subnormal.
GroupScale mxfp4_scale(std::uint32_t group_amax_bits) {
  const std::uint32_t code = std::max(group_amax_bits >> 23, 2U) - 2U;
  return {static_cast<std::uint8_t>(code), std::bit_cast<float>((254U - code) << 23), 1.0F};
}

template <std::size_t kGroup>
void encode_group(const float* w, const GroupScale& scale, std::uint8_t* codes) {
  std::uint8_t nibbles[kGroup];
  for (std::size_t i = 0; i < kGroup; ++i) nibbles[i] = to_e2m1(w[i] * scale.multiplier / scale.divisor).bits;
  for (std::size_t i = 0; i < kGroup / 2; ++i) {
    codes[i] = static_cast<std::uint8_t>(nibbles[2 * i] | (nibbles[2 * i + 1] << 4));
  }
}

/// Returns false at a group that holds a NaN or infinity.
template <Fp4Format kFormat>
bool quantize_groups(std::span<const float> w, float global_scale, std::uint8_t* codes, std::uint8_t* scales) {
  constexpr auto kGroup = static_cast<std::size_t>(group_size(kFormat));
  for (std::size_t group = 0; group < w.size() / kGroup; ++group) {
    const auto values = w.subspan(group * kGroup).first<kGroup>();
    const std::uint32_t amax = amax_bits(values);
    if (amax >= detail::kF32Infinity) return false;
    const GroupScale scale = kFormat == Fp4Format::kNvfp4 ? nvfp4_scale(amax, global_scale) : mxfp4_scale(amax);
    scales[group] = scale.code;
    encode_group<kGroup>(values.data(), scale, codes + group * kGroup / 2);
  }
  return true;
}

float scale_value(Fp4Format format, std::uint8_t code) {
  return format == Fp4Format::kNvfp4 ? to_f32(E4m3{code}) : to_f32(Ue8m0{code});
}

/// values[i] = code * scale for one group; two loops, so that the second vectorises.
template <std::size_t kGroup>
void decode_group(const std::uint8_t* codes, float scale, float* values) {
  std::uint8_t nibbles[kGroup];
  for (std::size_t i = 0; i < kGroup / 2; ++i) {
    nibbles[2 * i] = codes[i] & 0xfU;
    nibbles[2 * i + 1] = static_cast<std::uint8_t>(codes[i] >> 4);
  }
  for (std::size_t i = 0; i < kGroup; ++i) values[i] = to_f32(E2m1{nibbles[i]}) * scale;
}

/// Fills a row with convert(code * scale).
template <Fp4Format kFormat, class T, class Convert>
void decode_row(const Fp4View& weights, std::int64_t row, std::span<T> out, Convert convert) {
  PINCH_ASSERT(row >= 0 && row < weights.n, "the row lies inside the matrix");
  PINCH_ASSERT(static_cast<std::int64_t>(out.size()) == weights.k, "the output holds one row of k columns");
  constexpr auto kGroup = static_cast<std::size_t>(group_size(kFormat));
  const std::int64_t groups = weights.k / group_size(kFormat);
  const std::uint8_t* codes = weights.codes + row * (weights.k / 2);
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::uint8_t scale = weights.scales[scale_offset(weights.scale_layout, row, group, groups)];
    float values[kGroup];
    decode_group<kGroup>(codes + group * (group_size(kFormat) / 2), scale_value(kFormat, scale), values);
    T* group_out = out.data() + group * group_size(kFormat);
    for (std::size_t i = 0; i < kGroup; ++i) group_out[i] = convert(values[i]);
  }
}

template <class T, class Convert>
void decode_row(const Fp4View& weights, std::int64_t row, std::span<T> out, Convert convert) {
  if (weights.format == Fp4Format::kNvfp4) return decode_row<Fp4Format::kNvfp4>(weights, row, out, convert);
  return decode_row<Fp4Format::kMxfp4>(weights, row, out, convert);
}

/// Why kernels cannot use a scale; empty where they can.
std::string_view scale_fault(Fp4Format format, std::uint8_t code) {
  if (format == Fp4Format::kMxfp4) {
    if (code == 0xff) return "NaN";
    return code > kLargestMxScale ? "above 2^125, so that 6 times it overflows bf16" : "";
  }
  if ((code & 0x7f) == 0x7f) return "NaN";
  return (code & 0x80) != 0 ? "negative" : "";
}

}  // namespace

Result<void> validate_fp4_shape(Fp4Format format, std::int64_t n, std::int64_t k) {
  if (n < 1 || n > kMaxFp4Dimension) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("n = {} is outside 1 .. {}", n, kMaxFp4Dimension), "n"};
  }
  return check_columns(format, k);
}

Result<void> validate(const Fp4View& weights) {
  PINCH_TRY(validate_fp4_shape(weights.format, weights.n, weights.k));
  if (weights.codes == nullptr || weights.scales == nullptr) {
    return Error{ErrorCode::kInvalidArgument, "the view has no memory: set codes and scales",
                 weights.codes == nullptr ? "codes" : "scales"};
  }
  if (!std::isfinite(weights.alpha)) {
    return Error{ErrorCode::kCorrupt, fmt::format("alpha is {}; it must be finite", weights.alpha), "alpha"};
  }
  const std::int64_t columns = weights.k / group_size(weights.format);
  for (std::int64_t row = 0; row < weights.n; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::uint8_t code = weights.scales[scale_offset(weights.scale_layout, row, column, columns)];
      const std::string_view fault = scale_fault(weights.format, code);
      if (fault.empty()) continue;
      return Error{
          ErrorCode::kCorrupt,
          fmt::format("scale 0x{:02x} is {}; {} scales must be finite and not negative: quantise the tensor anew", code,
                      fault, to_string(weights.format)),
          fmt::format("row {}, scale column {}", row, column)};
    }
  }
  return {};
}

Result<float> finite_amax(std::span<const float> rows, std::int64_t k, std::int64_t first_row) {
  const std::uint32_t bits = amax_bits(rows);
  if (bits >= detail::kF32Infinity) return not_finite(rows, k, first_row);
  return std::bit_cast<float>(bits);
}

float fp4_global_scale(Fp4Format format, float amax) {
  if (format == Fp4Format::kMxfp4 || amax == 0.0F) return 1.0F;
  return std::min(kE4m3Max * kE2m1Max / amax, kLargestGlobalScale);
}

Result<void> quantize_fp4_rows(Fp4Format format, std::int64_t k, float global_scale, std::span<const float> rows,
                               std::span<std::uint8_t> codes, std::span<std::uint8_t> scales, std::int64_t first_row) {
  PINCH_TRY(check_columns(format, k));
  const auto elements = static_cast<std::int64_t>(rows.size());
  const auto shape = [&] { return fmt::format("{} rows of {} columns", elements / k, k); };
  if (elements % k != 0) return wrong_size("the block", rows.size(), (elements / k + 1) * k, "a block of whole rows");
  if (static_cast<std::int64_t>(codes.size()) != elements / 2) {
    return wrong_size("codes", codes.size(), elements / 2, shape());
  }
  if (static_cast<std::int64_t>(scales.size()) != elements / group_size(format)) {
    return wrong_size("scales", scales.size(), elements / group_size(format), shape());
  }
  const bool finite = format == Fp4Format::kNvfp4
                          ? quantize_groups<Fp4Format::kNvfp4>(rows, global_scale, codes.data(), scales.data())
                          : quantize_groups<Fp4Format::kMxfp4>(rows, global_scale, codes.data(), scales.data());
  if (!finite) return not_finite(rows, k, first_row);
  return {};
}

Result<Fp4Matrix> quantize_fp4(std::span<const float> w, std::int64_t n, std::int64_t k, Fp4Format format) {
  PINCH_TRY(validate_fp4_shape(format, n, k));
  if (static_cast<std::int64_t>(w.size()) != n * k) {
    return wrong_size("w", w.size(), n * k, fmt::format("n = {}, k = {}", n, k));
  }
  PINCH_ASSIGN(amax, finite_amax(w, k));
  const float global_scale = fp4_global_scale(format, amax);
  Fp4Matrix matrix;
  matrix.format = format;
  matrix.n = n;
  matrix.k = k;
  matrix.alpha = 1.0F / global_scale;
  matrix.codes.resize(static_cast<std::size_t>(n * k / 2));
  matrix.scales.resize(static_cast<std::size_t>(n * k / group_size(format)));
  PINCH_TRY(quantize_fp4_rows(format, k, global_scale, w, matrix.codes, matrix.scales));
  return matrix;
}

void dequantize_row(const Fp4View& weights, std::int64_t row, std::span<Bf16> out) {
  decode_row(weights, row, out, [](float value) { return to_bf16(value); });
}

void dequantize_row(const Fp4View& weights, std::int64_t row, std::span<float> out) {
  decode_row(weights, row, out, [alpha = weights.alpha](float value) { return value * alpha; });
}

namespace {

/// Visits every (linear, swizzled) pair of offsets.
template <class Visit>
void for_each_scale(std::int64_t rows, std::int64_t columns, Visit visit) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      visit(static_cast<std::size_t>(scale_offset(ScaleLayout::kLinear, row, column, columns)),
            static_cast<std::size_t>(scale_offset(ScaleLayout::kSwizzled128x4, row, column, columns)));
    }
  }
}

Result<void> check_scales(ScaleLayout layout, std::size_t size, std::int64_t rows, std::int64_t columns) {
  if (rows < 1 || columns < 1 || rows > kMaxFp4Dimension || columns > kMaxFp4Dimension) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} x {} scales; both sizes must be in 1 .. {}", rows, columns, kMaxFp4Dimension),
                 "scales"};
  }
  const std::int64_t wanted = scale_bytes(layout, rows, columns);
  if (static_cast<std::int64_t>(size) == wanted) return {};
  return wrong_size("scales", size, wanted, fmt::format("{} x {} in the {} layout", rows, columns, to_string(layout)));
}

}  // namespace

Result<std::vector<std::uint8_t>> swizzle_scales(std::span<const std::uint8_t> linear, std::int64_t rows,
                                                 std::int64_t columns) {
  PINCH_TRY(check_scales(ScaleLayout::kLinear, linear.size(), rows, columns));
  std::vector<std::uint8_t> swizzled(static_cast<std::size_t>(scale_bytes(ScaleLayout::kSwizzled128x4, rows, columns)));
  for_each_scale(rows, columns, [&](std::size_t from, std::size_t to) { swizzled[to] = linear[from]; });
  return swizzled;
}

Result<std::vector<std::uint8_t>> unswizzle_scales(std::span<const std::uint8_t> swizzled, std::int64_t rows,
                                                   std::int64_t columns) {
  PINCH_TRY(check_scales(ScaleLayout::kSwizzled128x4, swizzled.size(), rows, columns));
  std::vector<std::uint8_t> linear(static_cast<std::size_t>(scale_bytes(ScaleLayout::kLinear, rows, columns)));
  for_each_scale(rows, columns, [&](std::size_t to, std::size_t from) { linear[to] = swizzled[from]; });
  return linear;
}

}  // namespace pinch
