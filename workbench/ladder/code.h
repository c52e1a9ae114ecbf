// What the hot loop of a GPU kernel wastes, as the schedule and algebra rungs read it from machine code.
#pragma once

#include "pinch/result.h"
#include "workbench/ladder/climb.h"
#include "workbench/sass/analysis.h"

namespace pinch::ladder {

/// Of the loop that is taken to be the hot one: with tensor instructions before without, then the innermost, then the
/// longest. Errors: kNotFound for a kernel without a loop; kUnsupported for code without control words, whose time is
/// not known, or of an architecture without a machine model.
Result<Code> code_of(const sass::KernelReport& kernel);

}  // namespace pinch::ladder
