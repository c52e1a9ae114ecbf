// The names that a checkpoint layout gives the parts of an FP4 tensor.
#pragma once

#include <string>
#include <string_view>

#include "pinch/fp4_checkpoint.h"

namespace pinch {

struct Fp4Names {
  std::string codes;
  std::string scales;
  std::string factor;  // NVFP4 only
};

inline constexpr std::string_view kPackedSuffix = "_packed";

inline Fp4Names fp4_names(std::string_view plain, Fp4Layout layout) {
  const std::string name(plain);
  if (layout == Fp4Layout::kModelOpt) return {name, name + "_scale", name + "_scale_2"};
  return {name + std::string(kPackedSuffix), name + "_scale", name + "_global_scale"};
}

}  // namespace pinch
