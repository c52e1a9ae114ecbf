// The tactic families of this build.
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "pinch/result.h"
#include "pinch/tactics.h"

namespace pinch {

/// The families of mm_bf16_fp4, in the order they are listed to people: "cpu", "sm90", "sm100". They live as long as
/// the program.
std::span<const TacticFamily* const> tactic_families();

/// Those of attention: "cpu_attention", "sm90_attention".
std::span<const AttentionTacticFamily* const> attention_tactic_families();

/// The family of this name. Errors: kNotFound, offering the nearest names.
Result<const TacticFamily*> find_tactic_family(std::string_view name);

/// The same among the families of every kind of problem.
using AnyTacticFamily = std::variant<const TacticFamily*, const AttentionTacticFamily*>;
Result<AnyTacticFamily> find_any_tactic_family(std::string_view name);

}  // namespace pinch
