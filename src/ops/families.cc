#include "pinch/families.h"

#include <fmt/core.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/attention/sm90/family.h"
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

std::span<const AttentionTacticFamily* const> attention_tactic_families() {
  static const std::array<const AttentionTacticFamily*, 2> families{&cpu_attention_family(), &sm90_attention_family()};
  return families;
}

namespace {

Error unknown_family(std::string_view name, const std::vector<std::string>& names) {
  return {ErrorCode::kNotFound,
          fmt::format("unknown tactic family '{}'; {}", name, did_you_mean(name, names, names.size())), "family"};
}

}  // namespace

Result<const TacticFamily*> find_tactic_family(std::string_view name) {
  std::vector<std::string> names;
  for (const TacticFamily* family : tactic_families()) {
    if (family->name() == name) return family;
    names.emplace_back(family->name());
  }
  return unknown_family(name, names);
}

Result<AnyTacticFamily> find_any_tactic_family(std::string_view name) {
  std::vector<std::string> names;
  for (const TacticFamily* family : tactic_families()) {
    if (family->name() == name) return AnyTacticFamily(family);
    names.emplace_back(family->name());
  }
  for (const AttentionTacticFamily* family : attention_tactic_families()) {
    if (family->name() == name) return AnyTacticFamily(family);
    names.emplace_back(family->name());
  }
  return unknown_family(name, names);
}

}  // namespace pinch
