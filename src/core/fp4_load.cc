#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "pinch/fp4_checkpoint.h"
#include "src/core/file_error.h"
#include "src/core/fp4_names.h"

namespace pinch {
namespace {

// Words every refusal alike: the file and the tensor it is about.
class Fp4Loader {
 public:
  Fp4Loader(const SafetensorsFile& file, std::string_view plain) : file_(file), plain_(plain) {}

  Result<Fp4Matrix> stored(Fp4Layout layout, const TensorView& codes) const {
    const Fp4Names names = fp4_names(plain_, layout);
    if (codes.dtype != DType::kU8 || codes.shape.size() != 2) {
      return refused(names.codes,
                     fmt::format("{} {}; FP4 codes are U8 [n, k / 2]", to_string(codes.dtype), to_string(codes.shape)));
    }
    const TensorInfo* scale_info = file_.find(names.scales);
    if (scale_info == nullptr) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("no tensor {} for the codes {}; {} needs both", quote_name(names.scales),
                               quote_name(names.codes), to_string(layout)),
                   file_.path()};
    }
    const TensorView scales = file_.view(*scale_info);

    Fp4Matrix matrix;
    matrix.n = codes.shape[0];
    matrix.k = codes.shape[1] > kMaxFp4Dimension ? codes.shape[1] : codes.shape[1] * 2;
    if (scales.dtype != DType::kF8E4m3 && scales.dtype != DType::kU8 && scales.dtype != DType::kF8E8m0) {
      return refused(names.scales,
                     fmt::format("{}; scales are F8_E4M3 (NVFP4), or U8 or F8_E8M0 (MXFP4)", to_string(scales.dtype)));
    }
    matrix.format = scales.dtype == DType::kF8E4m3 ? Fp4Format::kNvfp4 : Fp4Format::kMxfp4;
    const auto shape = validate_fp4_shape(matrix.format, matrix.n, matrix.k);
    if (!shape) return refused(names.codes, shape.error().text);
    const Shape wanted = {matrix.n, matrix.k / group_size(matrix.format)};
    if (scales.shape != wanted) {
      return refused(names.scales, fmt::format("shape {}; {} codes {} need scales {}", to_string(scales.shape),
                                               to_string(matrix.format), to_string(codes.shape), to_string(wanted)));
    }
    if (matrix.format == Fp4Format::kNvfp4) {
      PINCH_ASSIGN(alpha, factor(layout, names.factor));
      matrix.alpha = alpha;
    }
    matrix.codes = copy(codes.bytes);
    matrix.scales = copy(scales.bytes);
    const auto valid = validate(matrix.view());
    if (!valid) return Error{valid.error().code, valid.error().message(), place(names.scales)};
    return matrix;
  }

  Result<Fp4Matrix> quantised(const TensorView& weights, Fp4Format format) const {
    if (!is_float(weights.dtype) || weights.shape.size() != 2) {
      return refused(plain_, fmt::format("{} {}; give a 2-D tensor of F16, BF16, F32 or F64, or stored FP4",
                                         to_string(weights.dtype), to_string(weights.shape)));
    }
    const std::int64_t n = weights.shape[0], k = weights.shape[1];
    const auto shape = validate_fp4_shape(format, n, k);
    if (!shape) return refused(plain_, shape.error().text);
    std::vector<float> values(static_cast<std::size_t>(n * k));
    PINCH_TRY(read_f32(weights, 0, values));
    auto matrix = quantize_fp4(values, n, k, format);
    if (!matrix) return Error{matrix.error().code, matrix.error().message(), place(plain_)};
    return matrix;
  }

  Error refused(std::string_view tensor, std::string text) const {
    return {ErrorCode::kInvalidArgument, std::move(text), place(tensor)};
  }

 private:
  [[nodiscard]] std::string place(std::string_view tensor) const {
    return fmt::format("{}: tensor {}", file_.path(), quote_name(tensor));
  }

  [[nodiscard]] static std::vector<std::uint8_t> copy(std::span<const std::byte> bytes) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    return {first, first + bytes.size()};
  }

  // alpha, from the tensor that holds it or its reciprocal.
  Result<float> factor(Fp4Layout layout, const std::string& name) const {
    const TensorInfo* info = file_.find(name);
    if (info == nullptr) {
      return Error{
          ErrorCode::kNotFound,
          fmt::format("no tensor {}; NVFP4 scales of the layout {} need it", quote_name(name), to_string(layout)),
          file_.path()};
    }
    const TensorView view = file_.view(*info);
    if (view.dtype != DType::kF32 || view.bytes.size() != sizeof(float)) {
      return refused(name, fmt::format("{} {}; one F32 is needed", to_string(view.dtype), to_string(view.shape)));
    }
    float value = 0;
    std::memcpy(&value, view.bytes.data(), sizeof value);
    const float alpha = layout == Fp4Layout::kModelOpt ? value : 1.0F / value;
    if (!(alpha > 0) || alpha > std::numeric_limits<float>::max()) {
      return Error{ErrorCode::kCorrupt, fmt::format("{}; the factor of a tensor is finite and above 0", value),
                   place(name)};
    }
    return alpha;
  }

  const SafetensorsFile& file_;
  std::string_view plain_;
};

}  // namespace

Result<Fp4Matrix> load_fp4_tensor(const SafetensorsFile& file, std::string_view name, std::optional<Fp4Format> format) {
  const bool is_packed = name.ends_with(kPackedSuffix);
  const std::string_view plain = is_packed ? name.substr(0, name.size() - kPackedSuffix.size()) : name;
  const Fp4Loader loader(file, plain);

  const auto as_stored = [&](Fp4Layout layout, const TensorInfo& codes) -> Result<Fp4Matrix> {
    auto matrix = loader.stored(layout, file.view(codes));
    if (matrix.ok() && format && matrix->format != *format) {
      return loader.refused(codes.name,
                            fmt::format("stored as {}, asked for as {}; leave the format out to take it as it is",
                                        to_string(matrix->format), to_string(*format)));
    }
    return matrix;
  };
  if (const TensorInfo* packed = file.find(fp4_names(plain, Fp4Layout::kCompressedTensors).codes)) {
    return as_stored(Fp4Layout::kCompressedTensors, *packed);
  }
  const TensorInfo* exact = file.find(name);
  if (exact == nullptr) return file.tensor(name).error();
  if (exact->dtype == DType::kU8) return as_stored(Fp4Layout::kModelOpt, *exact);
  return loader.quantised(file.view(*exact), format.value_or(Fp4Format::kNvfp4));
}

}  // namespace pinch
