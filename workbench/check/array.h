// An array as a program left it in a file: .npy, .safetensors or raw bytes, of the formats low-precision kernels use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "pinch/result.h"
#include "pinch/tensor.h"

namespace pinch::check {

/// Copies share the file's mapping.
class Array {
 public:
  struct Layout {
    DType dtype = DType::kF32;
    Shape shape;
  };
  /// By the file's ending: .npy; .safetensors, where `tensor` names one (empty: the file's only one); else raw, and
  /// `raw` is needed. Errors: those of the readers; kInvalidArgument where `raw` or `tensor` is missing; kCorrupt where
  /// a raw file has not the bytes of its layout; kUnsupported for a type that values() does not read.
  static Result<Array> open(const std::string& path, const std::string& tensor = {},
                            const std::optional<Layout>& raw = std::nullopt);

  [[nodiscard]] const TensorView& view() const { return view_; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Elements [first, first + out.size()), exact in FP64. E2M1 lies two to a byte, the low nibble first.
  void values(std::int64_t first, std::span<double> out) const;
  /// Flat index of the first NaN.
  [[nodiscard]] std::optional<std::int64_t> first_nan() const;

 private:
  std::shared_ptr<const void> file_;
  TensorView view_;
  std::int64_t size_ = 0;
};

/// Distance of neighbouring values of the type at |value|: its unit in the last place there. U8: 1.
double ulp_at(DType type, double value);

/// Half an ulp of a value just below 2, relative to 1: the largest rounding error of one operation. U8: 0.5.
double unit_roundoff(DType type);

/// bf16, f16, f32, f64, e4m3, e5m2, e2m1, u8: the types of this room, as people write them.
std::optional<DType> parse_type(std::string_view name);
std::string_view type_name(DType type);

}  // namespace pinch::check
