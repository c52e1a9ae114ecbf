// The tactic families of this build.
#pragma once

#include <span>
#include <string_view>

#include "pinch/result.h"
#include "pinch/tactics.h"

namespace pinch {

/// Every family of this build, in the order they are listed to people: "cpu", "sm90", "sm100". They live as long as the
/// program.
std::span<const TacticFamily* const> tactic_families();

/// The tactics of attention on the CPU, "cpu_attention". Named apart: another kind of problem.
const AttentionTacticFamily& cpu_attention_tactics();

/// The family of this name. Errors: kNotFound, offering the nearest names.
Result<const TacticFamily*> find_tactic_family(std::string_view name);

}  // namespace pinch
