#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>

#include "pinch/fp4_checkpoint.h"
#include "src/core/atomic_file.h"
#include "src/core/file_error.h"
#include "src/core/fp4_names.h"

namespace pinch {
namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 18;  // 1 MiB of FP32; whole groups of both formats

// Why a tensor cannot become FP4; empty where it can.
std::string obstacle(const TensorInfo& tensor, Fp4Format format) {
  if (!is_float(tensor.dtype)) return fmt::format("{} is not a float", to_string(tensor.dtype));
  if (tensor.shape.size() != 2) return "not 2-D";
  const auto shape = validate_fp4_shape(format, tensor.shape[0], tensor.shape[1]);
  return shape.ok() ? "" : shape.error().text;
}

// What is summed over a tensor for its errors.
struct ErrorSums {
  double weight_squares = 0;
  double error_squares = 0;
  double max_abs = 0;

  void add(std::span<const float> weights, std::span<const float> quantised) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double weight = weights[i];
      const double error = std::abs(weight - static_cast<double>(quantised[i]));
      weight_squares += weight * weight;
      error_squares += error * error;
      max_abs = std::max(max_abs, error);
    }
  }

  void store(QuantizedTensor& tensor) const {
    tensor.max_abs = max_abs;
    tensor.relative_l2 = error_squares == 0 ? 0 : std::sqrt(error_squares / weight_squares);
    tensor.snr_db =
        error_squares == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(weight_squares / error_squares);
  }
};

// One run over one model. A weight is a stream of groups in row-major order, since rows hold whole groups; so it passes
// in pieces whatever the length of its rows.
class CheckpointQuantizer {
 public:
  CheckpointQuantizer(const SafetensorsFile& model, const std::string& output, const QuantizeOptions& options)
      : model_(model), output_(output), options_(options) {}

  Result<std::vector<QuantizedTensor>> run() {
    std::error_code ignored;
    if (std::filesystem::equivalent(model_.path(), output_, ignored)) {
      return Error{ErrorCode::kInvalidArgument, "is the model itself; give another output", output_};
    }
    PINCH_TRY(plan());
    PINCH_ASSIGN(writer, SafetensorsWriter::create(output_, specs_, metadata()));
    for (std::size_t i = 0; i < report_.size(); ++i) {
      const TensorInfo& tensor = model_.tensors()[i];
      PINCH_TRY(report_[i].kept_because.empty() ? quantize(tensor, report_[i], writer, first_spec_[i])
                                                : copy(tensor, writer, first_spec_[i]));
    }
    if (options_.config_path.empty()) {
      PINCH_TRY(writer.finish());
      return std::move(report_);
    }
    // Both files are complete before either has its name.
    const std::string text = config();
    PINCH_ASSIGN(config_file, AtomicFile::create(options_.config_path, text.size()));
    PINCH_TRY(config_file.write(0, std::as_bytes(std::span(text))));
    PINCH_TRY(writer.finish());
    PINCH_TRY(config_file.commit());
    return std::move(report_);
  }

 private:
  // Decides what happens to each tensor and lists what the output holds.
  Result<void> plan() {
    bool any_quantised = false;
    for (const TensorInfo& tensor : model_.tensors()) {
      QuantizedTensor& entry = report_.emplace_back();
      entry.name = tensor.name;
      entry.dtype = tensor.dtype;
      entry.shape = tensor.shape;
      entry.bytes_in = entry.bytes_out = tensor.end - tensor.begin;
      entry.kept_because = obstacle(tensor, options_.format);
      if (entry.kept_because.empty() && options_.select && !options_.select(tensor))
        entry.kept_because = "not selected";
      total_bytes_ += entry.bytes_in;
      first_spec_.push_back(specs_.size());
      if (!entry.kept_because.empty()) {
        specs_.push_back({tensor.name, tensor.dtype, tensor.shape});
        continue;
      }
      any_quantised = true;
      PINCH_TRY(plan_quantised(tensor, entry));
    }
    if (!any_quantised) {
      return Error{
          ErrorCode::kNotFound,
          fmt::format("none of {} tensors is selected and can be quantised: 2-D, a float, columns a multiple of {}",
                      report_.size(), group_size(options_.format)),
          model_.path()};
    }
    return {};
  }

  Result<void> plan_quantised(const TensorInfo& tensor, QuantizedTensor& entry) {
    const bool nvfp4 = options_.format == Fp4Format::kNvfp4;
    const Fp4Names names = fp4_names(tensor.name, options_.layout);
    const std::int64_t n = tensor.shape[0], k = tensor.shape[1];
    specs_.push_back({names.codes, DType::kU8, {n, k / 2}});
    specs_.push_back({names.scales, nvfp4 ? DType::kF8E4m3 : DType::kU8, {n, k / group_size(options_.format)}});
    if (nvfp4)
      specs_.push_back({names.factor, DType::kF32, options_.layout == Fp4Layout::kModelOpt ? Shape{} : Shape{1}});
    entry.bytes_out = 0;
    for (std::size_t i = first_spec_.back(); i < specs_.size(); ++i) {
      PINCH_ASSIGN(bytes, byte_size(specs_[i].dtype, specs_[i].shape));
      entry.bytes_out += bytes;
      if (specs_[i].name == tensor.name || model_.find(specs_[i].name) == nullptr) continue;
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("quantising {} would write {}, which the model has already; leave the tensor out, or give the "
                      "other layout",
                      quote_name(tensor.name), quote_name(specs_[i].name)),
          model_.path()};
    }
    return {};
  }

  [[nodiscard]] std::string config() const { return fp4_config_json(report_, options_.format, options_.layout); }

  [[nodiscard]] Metadata metadata() const {
    constexpr std::string_view kKey = "quantization_config";
    Metadata metadata = model_.metadata();
    std::erase_if(metadata, [&](const auto& entry) { return entry.first == kKey; });
    metadata.emplace_back(kKey, config());
    return metadata;
  }

  Result<void> advance(const TensorInfo& tensor, std::uint64_t bytes) {
    done_bytes_ += bytes;
    if (!options_.progress || options_.progress({tensor.name, done_bytes_, total_bytes_})) return {};
    return Error{ErrorCode::kInterrupted, "interrupted; nothing was written", output_};
  }

  Result<void> copy(const TensorInfo& tensor, SafetensorsWriter& writer, std::size_t spec) {
    constexpr std::size_t kPieceBytes = 1 << 20;
    const std::span<const std::byte> bytes = model_.view(tensor).bytes;
    for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
      PINCH_TRY(writer.append(spec, piece));
      model_.release(piece);
      PINCH_TRY(advance(tensor, piece.size()));
    }
    return {};
  }

  // Calls use(values) for the weights, a piece at a time, and gives their pages back.
  template <class Use>
  Result<void> for_each_piece(const TensorInfo& tensor, Use use) {
    const TensorView view = model_.view(tensor);
    const std::int64_t elements = tensor.shape[0] * tensor.shape[1];
    const auto element_bytes = static_cast<std::size_t>(bits(tensor.dtype) / 8);
    for (std::int64_t at = 0; at < elements; at += kPieceElements) {
      weights_.resize(static_cast<std::size_t>(std::min(kPieceElements, elements - at)));
      PINCH_TRY(read_f32(view, at, weights_));
      PINCH_TRY(use(std::span<const float>(weights_), at));
      const auto piece =
          view.bytes.subspan(static_cast<std::size_t>(at) * element_bytes, weights_.size() * element_bytes);
      model_.release(piece);
    }
    return {};
  }

  Result<void> quantize(const TensorInfo& tensor, QuantizedTensor& entry, SafetensorsWriter& writer, std::size_t spec) {
    float amax = 0;
    const auto measure = [&](std::span<const float> weights, std::int64_t at) -> Result<void> {
      const auto piece_amax = finite_amax(weights, kPieceElements);
      if (!piece_amax) return not_finite(tensor, weights, at);
      amax = std::max(amax, *piece_amax);
      return advance(tensor, 0);
    };
    PINCH_TRY(for_each_piece(tensor, measure));
    const float global_scale = fp4_global_scale(options_.format, amax);
    const float alpha = 1.0F / global_scale;

    ErrorSums sums;
    const auto element_bytes = static_cast<std::uint64_t>(bits(tensor.dtype) / 8);
    const auto encode = [&](std::span<const float> weights, std::int64_t) -> Result<void> {
      const auto elements = static_cast<std::int64_t>(weights.size());
      codes_.resize(weights.size() / 2);
      scales_.resize(weights.size() / static_cast<std::size_t>(group_size(options_.format)));
      PINCH_TRY(quantize_fp4_rows(options_.format, elements, global_scale, weights, codes_, scales_));
      quantised_.resize(weights.size());
      dequantize_row({options_.format, 1, elements, codes_.data(), scales_.data(), ScaleLayout::kLinear, alpha}, 0,
                     std::span(quantised_));
      sums.add(weights, quantised_);
      PINCH_TRY(writer.append(spec, std::as_bytes(std::span(codes_))));
      PINCH_TRY(writer.append(spec + 1, std::as_bytes(std::span(scales_))));
      return advance(tensor, weights.size() * element_bytes);
    };
    PINCH_TRY(for_each_piece(tensor, encode));
    sums.store(entry);
    if (options_.format == Fp4Format::kMxfp4) return {};
    const float factor = options_.layout == Fp4Layout::kModelOpt ? alpha : global_scale;
    return writer.append(spec + 2, std::as_bytes(std::span(&factor, 1)));
  }

  // Pieces know nothing of rows, so the place is found here.
  [[nodiscard]] Error not_finite(const TensorInfo& tensor, std::span<const float> weights, std::int64_t at) const {
    const auto bad = std::find_if(weights.begin(), weights.end(), [](float weight) { return !std::isfinite(weight); });
    const std::int64_t position = at + (bad - weights.begin());
    const std::int64_t k = tensor.shape[1];
    return {ErrorCode::kInvalidArgument,
            fmt::format("row {}, column {} is {}; FP4 has neither NaN nor infinity: repair or leave out this tensor",
                        position / k, position % k, *bad),
            fmt::format("{}: tensor {}", model_.path(), quote_name(tensor.name))};
  }

  const SafetensorsFile& model_;
  const std::string& output_;
  const QuantizeOptions& options_;
  std::vector<QuantizedTensor> report_;  // one for each tensor of the model
  std::vector<TensorSpec> specs_;        // what the output holds
  std::vector<std::size_t> first_spec_;  // the first of specs_ that came from a tensor of the model
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::vector<float> weights_;
  std::vector<float> quantised_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
};

}  // namespace

Result<std::vector<QuantizedTensor>> quantize_checkpoint(const SafetensorsFile& model, const std::string& output,
                                                         const QuantizeOptions& options) {
  return CheckpointQuantizer(model, output, options).run();
}

}  // namespace pinch
