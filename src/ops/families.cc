#include "pinch/families.h"

#include <fmt/core.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/attention/tactic.h"
#include "kernels/gemm_bf16_fp4/sm90/family.h"
#include "kernels/gemm_bf16_fp4/tactic.h"
#include "src/core/nearest.h"
#include "src/tactics/sm100.h"

namespace pinch {

std::span<const TacticFamily* const> tactic_families() {
  static const std::array<const TacticFamily*, 3> families{&cpu_tactic_family(), &sm90_tactic_family(),
                                                           &sm100_family()};
  return families;
}

const AttentionTacticFamily& cpu_attention_tactics() {
  return cpu_attention_family();
}

Result<const TacticFamily*> find_tactic_family(std::string_view name) {
  std::vector<std::string> names;
  for (const TacticFamily* family : tactic_families()) {
    if (family->name() == name) return family;
    names.emplace_back(family->name());
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("unknown tactic family '{}'; {}", name, did_you_mean(name, names, names.size())), "family"};
}

}  // namespace pinch
