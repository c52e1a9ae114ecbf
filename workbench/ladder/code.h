// What the hot loop of a GPU kernel wastes, as the schedule and algebra rungs read it from machine code.
#pragma once

#include <string>

#include "pinch/result.h"
#include "workbench/ladder/climb.h"
#include "workbench/sass/analysis.h"

namespace pinch::ladder {

/// Of the loop that is taken to be the hot one: with tensor instructions before without, then the innermost, then the
/// one that multiplies most with fewest instructions, else the longest. Where the products stand behind branches, an
/// iteration that takes them counts; what others do besides, as joining sums, is not in it. Errors: kNotFound for a
/// kernel without a loop; kUnsupported for code without control words, whose time is not known, for a kernel that
/// multiplies with the matrix unit but on no way round a loop, and for an architecture without a machine model.
Result<Code> code_of(const sass::KernelReport& kernel);

/// A kernel as a call launches it.
struct LaunchedKernel {
  std::string name;       ///< as in machine code, mangled
  int block_warps = 4;    ///< warps of a block
  int blocks_per_sm = 1;  ///< that are there at once

  /// Of one sub-partition, all in the same loop.
  [[nodiscard]] int warps() const;
  /// The same where code has roles: one warpgroup of a block produces, the others consume.
  [[nodiscard]] int consumer_warps() const;
};

/// The kernel's hot loop as so many warps run it, read from `file`: a cubin, or a program that holds it, of which no
/// other kernel is disassembled. Errors: kNotFound where the file has no code of that name; those of reading it and of
/// code_of.
Result<Code> read_launched(const std::string& file, const LaunchedKernel& kernel);

}  // namespace pinch::ladder
