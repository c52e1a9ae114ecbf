#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pinch/fp4_checkpoint.h"
#include "pinch/version.h"

namespace pinch {
namespace {

using Json = nlohmann::ordered_json;

// The modules whose weights stayed in floating point: loaders would otherwise look for their scales.
Json modules_left_out(const std::vector<QuantizedTensor>& tensors) {
  constexpr std::string_view kWeight = ".weight";
  std::vector<std::string> modules;
  for (const QuantizedTensor& tensor : tensors) {
    if (tensor.kept_because.empty() || tensor.shape.size() != 2 || !is_float(tensor.dtype)) continue;
    const bool suffixed = tensor.name.ends_with(kWeight);
    modules.push_back(suffixed ? tensor.name.substr(0, tensor.name.size() - kWeight.size()) : tensor.name);
  }
  std::sort(modules.begin(), modules.end());
  return modules;
}

}  // namespace

std::string fp4_config_json(const std::vector<QuantizedTensor>& tensors, Fp4Format format, Fp4Layout layout) {
  const bool nvfp4 = format == Fp4Format::kNvfp4;
  const Json left_out = modules_left_out(tensors);
  Json config;
  if (layout == Fp4Layout::kModelOpt) {
    // Weight-only: there is no input_scale, which the algorithm "NVFP4" would promise.
    config = {{"producer", {{"name", "pinch"}, {"version", version()}}},
              {"quantization",
               {{"quant_algo", nvfp4 ? "W4A16_NVFP4" : "mxfp4"},
                {"kv_cache_quant_algo", nullptr},
                {"group_size", group_size(format)},
                {"exclude_modules", left_out}}}};
  } else {
    const char* pack = nvfp4 ? "nvfp4-pack-quantized" : "mxfp4-pack-quantized";
    const Json weights = {{"num_bits", 4},
                          {"type", "float"},
                          {"symmetric", true},
                          {"group_size", group_size(format)},
                          {"strategy", nvfp4 ? "tensor_group" : "group"},
                          {"dynamic", false},
                          {"scale_dtype", nvfp4 ? "torch.float8_e4m3fn" : "torch.uint8"}};
    const Json group = {{"targets", Json::array({"Linear"})},
                        {"weights", weights},
                        {"input_activations", nullptr},
                        {"output_activations", nullptr},
                        {"format", pack}};
    config = {{"config_groups", {{"group_0", group}}},
              {"quant_method", "compressed-tensors"},
              {"kv_cache_scheme", nullptr},
              {"format", pack},
              {"quantization_status", "compressed"},
              {"ignore", left_out}};
  }
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pinch
