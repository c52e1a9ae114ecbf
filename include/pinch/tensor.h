// Element types and views of tensors that lie in files: bytes with a type and a shape, never a typed pointer, because a
// file may place a tensor at any address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/result.h"

namespace pinch {

/// Element types that the .safetensors format defines; .npy covers a part of them.
enum class DType : std::uint8_t {
  kBool,
  kF4,      ///< E2M1, two to a byte
  kF6E2m3,  ///< four to three bytes
  kF6E3m2,
  kU8,
  kI8,
  kF8E5m2,
  kF8E4m3,
  kF8E8m0,
  kF8E4m3Fnuz,  ///< no negative zero, no infinity
  kF8E5m2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
  kC64,  ///< two F32
};

/// Bits of one element.
int bits(DType type);

/// The name .safetensors uses ("BF16", "F8_E4M3"); parse_dtype is its inverse and is case-sensitive.
std::string_view to_string(DType type);
std::optional<DType> parse_dtype(std::string_view name);

/// Every name to_string gives, for messages: "BOOL, F4, ...".
std::string dtype_names();

/// True for F16, BF16, F32 and F64: what read_f32 takes.
bool is_float(DType type);

/// Sizes along each axis, outermost first; empty for a scalar.
using Shape = std::vector<std::int64_t>;
std::string to_string(const Shape& shape);  ///< "[4096, 1024]"

/// Elements of a shape. Errors: kInvalidArgument for a negative size, or where the product of the sizes (a size of 0
/// counted as 1, so that no partial product can overflow later) passes 2^63 - 1.
Result<std::int64_t> element_count(const Shape& shape);

/// Bytes of a tensor. Errors: those of element_count; kInvalidArgument where the bits do not fill whole bytes or the
/// bytes pass 2^63 - 1.
Result<std::uint64_t> byte_size(DType type, const Shape& shape);

/// A tensor stored row-major and little-endian. `bytes` may start at any address and lives as long as its file.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// Elements [first, first + out.size()) of a floating-point tensor, in row-major order, as FP32 (F64 is rounded to
/// nearest even, beyond FP32's range it becomes infinity). Errors: kInvalidArgument for a range outside the tensor or a
/// type that is_float does not name.
Result<void> read_f32(const TensorView& tensor, std::int64_t first, std::span<float> out);

}  // namespace pinch
