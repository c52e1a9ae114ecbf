#include "pinch/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "pinch/formats.h"

namespace pinch {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian and are read in place");

struct TypeRow {
  std::string_view name;
  int bits;
};
// In the order of DType.
constexpr std::array<TypeRow, 22> kTypes = {
    {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
     {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
     {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
     {"I64", 64},    {"U64", 64},    {"F64", 64},    {"C64", 64}}};
static_assert(static_cast<std::size_t>(DType::kC64) + 1 == kTypes.size());

constexpr std::uint64_t kMaxCount = std::numeric_limits<std::int64_t>::max();

template <class Stored, class Convert>
void convert(const std::byte* from, std::span<float> out, Convert to) {
  for (float& value : out) {
    Stored stored;
    std::memcpy(&stored, from, sizeof stored);
    from += sizeof stored;
    value = to(stored);
  }
}

}  // namespace

int bits(DType type) {
  return kTypes[static_cast<std::size_t>(type)].bits;
}

std::string_view to_string(DType type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const TypeRow& type : kTypes) names += fmt::format("{}{}", names.empty() ? "" : ", ", type.name);
  return names;
}

bool is_float(DType type) {
  return type == DType::kF16 || type == DType::kBf16 || type == DType::kF32 || type == DType::kF64;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::int64_t> element_count(const Shape& shape) {
  std::uint64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("shape {} has a negative size", to_string(shape)), "shape"};
    }
    empty |= size == 0;
    const auto factor = static_cast<std::uint64_t>(size == 0 ? 1 : size);
    if (product > kMaxCount / factor) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("the product of shape {} overflows; at most 2^63 - 1 elements", to_string(shape)),
                   "shape"};
    }
    product *= factor;
  }
  return empty ? 0 : static_cast<std::int64_t>(product);
}

Result<std::uint64_t> byte_size(DType type, const Shape& shape) {
  PINCH_ASSIGN(count, element_count(shape));
  const auto elements = static_cast<std::uint64_t>(count);
  const auto element_bits = static_cast<std::uint64_t>(bits(type));
  if (element_bits % 8 == 0) {
    if (elements > kMaxCount / (element_bits / 8)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} elements of {} overflow; at most 2^63 - 1 bytes", elements, to_string(type)),
                   "shape"};
    }
    return elements * (element_bits / 8);
  }
  if (elements > kMaxCount / element_bits) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} elements of {} overflow; at most 2^63 - 1 bits", elements, to_string(type)), "shape"};
  }
  if (elements * element_bits % 8 != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} elements of {} do not fill whole bytes", elements, to_string(type)), "shape"};
  }
  return elements * element_bits / 8;
}

Result<void> read_f32(const TensorView& tensor, std::int64_t first, std::span<float> out) {
  if (!is_float(tensor.dtype)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} is not a floating-point type; give F16, BF16, F32 or F64", to_string(tensor.dtype)),
                 ""};
  }
  const auto element_bytes = static_cast<std::uint64_t>(bits(tensor.dtype)) / 8;
  const std::uint64_t stored = tensor.bytes.size() / element_bytes;
  if (first < 0 || static_cast<std::uint64_t>(first) > stored ||
      out.size() > stored - static_cast<std::uint64_t>(first)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} elements from {} were asked of a tensor of {}", out.size(), first, stored), ""};
  }
  const std::byte* from = tensor.bytes.data() + static_cast<std::uint64_t>(first) * element_bytes;
  switch (tensor.dtype) {
    case DType::kF16:
      convert<F16>(from, out, [](F16 x) { return to_f32(x); });
      break;
    case DType::kBf16:
      convert<Bf16>(from, out, [](Bf16 x) { return to_f32(x); });
      break;
    case DType::kF64:
      convert<double>(from, out, [](double x) { return static_cast<float>(x); });
      break;
    default:
      if (!out.empty()) std::memcpy(out.data(), from, out.size_bytes());
  }
  return {};
}

}  // namespace pinch
