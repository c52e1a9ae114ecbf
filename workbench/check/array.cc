#include "workbench/check/array.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <vector>

#include "pinch/formats.h"
#include "pinch/npy.h"
#include "pinch/safetensors.h"
#include "src/core/mapped_file.h"

namespace pinch::check {
namespace {

struct Type {
  DType type;
  std::string_view name;
  int fraction_bits;
  int smallest_exponent;  // of a normal number
};
constexpr std::array<Type, 8> kTypes = {{{DType::kBf16, "bf16", 7, -126},
                                         {DType::kF16, "f16", 10, -14},
                                         {DType::kF32, "f32", 23, -126},
                                         {DType::kF64, "f64", 52, -1022},
                                         {DType::kF8E4m3, "e4m3", 3, -6},
                                         {DType::kF8E5m2, "e5m2", 2, -14},
                                         {DType::kF4, "e2m1", 1, 0},
                                         {DType::kU8, "u8", 0, 0}}};

const Type* find(DType type) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& each) { return each.type == type; });
  return found == kTypes.end() ? nullptr : found;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

std::optional<DType> parse_type(std::string_view name) {
  for (const Type& each : kTypes) {
    if (each.name == name) return each.type;
  }
  return std::nullopt;
}

std::string_view type_name(DType type) {
  const Type* found = find(type);
  return found == nullptr ? to_string(type) : found->name;
}

double ulp_at(DType type, double value) {
  const Type* found = find(type);
  if (found == nullptr || type == DType::kU8 || !std::isfinite(value)) return 1;
  const int exponent = value == 0 ? found->smallest_exponent : std::max(std::ilogb(value), found->smallest_exponent);
  return std::ldexp(1.0, exponent - found->fraction_bits);
}

double unit_roundoff(DType type) {
  const Type* found = find(type);
  return found == nullptr ? 0.5 : std::ldexp(0.5, -found->fraction_bits);
}

Result<Array> Array::open(const std::string& path, const std::string& tensor, const std::optional<Layout>& raw) {
  Array array;
  const std::string kind = std::filesystem::path(path).extension();
  if (kind == ".npy") {
    PINCH_ASSIGN(file, NpyFile::open(path));
    array.view_ = file.view();
    array.file_ = std::make_shared<NpyFile>(std::move(file));
  } else if (kind == ".safetensors") {
    PINCH_ASSIGN(file, SafetensorsFile::open(path));
    if (tensor.empty() && file.tensors().size() != 1) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("holds {} tensors; name the one to read", file.tensors().size()), path};
    }
    PINCH_ASSIGN(view, file.tensor(tensor.empty() ? file.tensors().front().name : tensor));
    array.view_ = view;
    array.file_ = std::make_shared<SafetensorsFile>(std::move(file));
  } else {
    if (!raw) {
      return Error{ErrorCode::kInvalidArgument, "is neither .npy nor .safetensors, so its type and shape must be given",
                   path};
    }
    PINCH_ASSIGN(bytes, byte_size(raw->dtype, raw->shape));
    PINCH_ASSIGN(file, MappedFile::open(path));
    if (file->bytes().size() != bytes) {
      return Error{ErrorCode::kCorrupt,
                   fmt::format("size_mismatch: {} bytes, {} {} needs {}", file->bytes().size(), type_name(raw->dtype),
                               pinch::to_string(raw->shape), bytes),
                   path};
    }
    array.view_ = {raw->dtype, raw->shape, file->bytes()};
    array.file_ = file;
  }
  if (find(array.view_.dtype) == nullptr) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("has elements of type {}; compared are bf16, f16, f32, f64, e4m3, e5m2, e2m1, u8",
                             to_string(array.view_.dtype)),
                 path};
  }
  PINCH_ASSIGN(count, element_count(array.view_.shape));
  array.size_ = count;
  return array;
}

void Array::values(std::int64_t first, std::span<double> out) const {
  const std::byte* bytes = view_.bytes.data();
  const auto at = static_cast<std::size_t>(first);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t index = at + i;
    switch (view_.dtype) {
      case DType::kBf16:
        out[i] = to_f32(Bf16{load<std::uint16_t>(bytes + 2 * index)});
        break;
      case DType::kF16:
        out[i] = to_f32(F16{load<std::uint16_t>(bytes + 2 * index)});
        break;
      case DType::kF32:
        out[i] = load<float>(bytes + 4 * index);
        break;
      case DType::kF64:
        out[i] = load<double>(bytes + 8 * index);
        break;
      case DType::kF8E4m3:
        out[i] = to_f32(E4m3{load<std::uint8_t>(bytes + index)});
        break;
      case DType::kF8E5m2:
        out[i] = to_f32(E5m2{load<std::uint8_t>(bytes + index)});
        break;
      case DType::kF4: {
        const auto pair = load<std::uint8_t>(bytes + index / 2);
        out[i] = to_f32(E2m1{static_cast<std::uint8_t>(index % 2 == 0 ? pair & 15 : pair >> 4)});
        break;
      }
      default:
        out[i] = load<std::uint8_t>(bytes + index);
    }
  }
}

std::optional<std::int64_t> Array::first_nan() const {
  if (view_.dtype == DType::kU8 || view_.dtype == DType::kF4) return std::nullopt;  // they have none
  std::vector<double> block(1 << 14);
  for (std::int64_t first = 0; first < size_; first += static_cast<std::int64_t>(block.size())) {
    const auto here = std::span(block).first(std::min(block.size(), static_cast<std::size_t>(size_ - first)));
    values(first, here);
    const auto found = std::find_if(here.begin(), here.end(), [](double value) { return std::isnan(value); });
    if (found != here.end()) return first + (found - here.begin());
  }
  return std::nullopt;
}

}  // namespace pinch::check
