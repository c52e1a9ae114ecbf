// FP4 weights in .safetensors checkpoints, under the names the two common tools give them. T is the plain tensor's
// name, as "model.layers.0.mlp.up_proj.weight", of shape [n, k]:
//
//   layout               codes, U8 [n, k / 2]   scales, [n, k / group]   factor of the tensor (NVFP4 only), F32
//   modelopt             T                      T_scale                  T_scale_2, [], alpha
//   compressed-tensors   T_packed               T_scale                  T_global_scale, [1], 1 / alpha
//
// Scales are F8_E4M3 for NVFP4 and U8 (a biased exponent) for MXFP4, linear. Sources: NVIDIA Model Optimizer's unified
// checkpoint export; compressed-tensors' nvfp4-pack-quantized and mxfp4-pack-quantized formats.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/fp4.h"
#include "pinch/result.h"
#include "pinch/safetensors.h"

namespace pinch {

enum class Fp4Layout : std::uint8_t { kModelOpt, kCompressedTensors };
constexpr std::string_view to_string(Fp4Layout layout) {
  return layout == Fp4Layout::kModelOpt ? "modelopt" : "compressed-tensors";
}

/// The weights named `name` (T above; T_packed is understood too): stored FP4 of either layout as it is, checked by
/// validate(); a plain F16, BF16, F32 or F64 tensor [n, k] quantised to `format`, NVFP4 where none is given. Scales are
/// linear. Errors, with file and tensor: kNotFound (nearest names offered, or the scale that is missing), kCorrupt (NaN
/// scales, a factor that is 0 or not finite), kInvalidArgument (another type or shape, a NaN weight, or stored FP4 of
/// another format than the one given).
Result<Fp4Matrix> load_fp4_tensor(const SafetensorsFile& file, std::string_view name,
                                  std::optional<Fp4Format> format = std::nullopt);

/// How far quantize_checkpoint has come, in bytes of the input's tensors.
struct QuantizeProgress {
  std::string_view tensor;
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
};

struct QuantizeOptions {
  Fp4Format format = Fp4Format::kNvfp4;
  Fp4Layout layout = Fp4Layout::kModelOpt;

  /// Asked of every tensor that can be quantised; empty takes all of them.
  std::function<bool(const TensorInfo&)> select = {};

  /// Told at least once a MiB; false stops the work.
  std::function<bool(const QuantizeProgress&)> progress = {};

  /// Where the layout's configuration goes, for loaders that read it from a file of its own; empty for nowhere.
  std::string config_path = {};
};

/// What became of one tensor. Errors compare code * scale * alpha with the weight, in double precision.
struct QuantizedTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::string kept_because;  ///< why it was copied byte for byte; empty where it was quantised
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  double relative_l2 = 0;  ///< |w - q| / |w|; 0 where both are 0
  double max_abs = 0;      ///< largest |w - q|
  double snr_db = 0;       ///< 20 log10(|w| / |w - q|); infinity where nothing was lost
};

/// Quantises the 2-D floating-point weights of `model` whose columns fill whole groups, copies every other tensor byte
/// for byte, keeps the metadata (adding "quantization_config") and writes `output`, which appears whole or not at all.
/// Peak memory does not grow with the tensors: weights pass in pieces of 1 MiB. Result: every tensor, in the order of
/// the input. Errors: kNotFound where nothing is selected; kInvalidArgument for a NaN or infinite weight (tensor, row,
/// column), an output that is the model itself or no file, a name that is taken; kInterrupted; kIo.
Result<std::vector<QuantizedTensor>> quantize_checkpoint(const SafetensorsFile& model, const std::string& output,
                                                         const QuantizeOptions& options);

/// The configuration that goes with such a file, as JSON text: hf_quant_config.json for ModelOpt, the
/// quantization_config block of config.json for compressed-tensors. Weights kept in floating point are listed as left
/// out.
std::string fp4_config_json(const std::vector<QuantizedTensor>& tensors, Fp4Format format, Fp4Layout layout);

}  // namespace pinch
