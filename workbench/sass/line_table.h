// Source lines from the .debug_line section of a cubin, as ptxas -lineinfo writes it.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "workbench/sass/bytes.h"
#include "workbench/sass/program.h"

namespace pinch::sass {

struct LineRow {
  std::uint64_t offset = 0;  ///< bytes into the function from which on it holds
  std::uint32_t file = 0;    ///< index into LineTable::files
  std::uint32_t line = 0;    ///< 0 behind the end of what is known
};

struct LineTable {
  std::vector<SourceFile> files;                                      ///< views into the section
  std::unordered_map<std::uint32_t, std::vector<LineRow>> functions;  ///< by number; rows by ascending offset
};

/// Reads DWARF line programs of versions 2 to 4. `functions` has a number of the caller's for the function at each
/// place of the section that a relocation fills with its address: names may be long, and each be said often. Lines are
/// a convenience: where the section is damaged, what was read until there is returned. Source: DWARF 4, section 6.2.
[[nodiscard]] LineTable read_line_table(Bytes section, const std::map<std::uint64_t, std::uint32_t>& functions);

}  // namespace pinch::sass
