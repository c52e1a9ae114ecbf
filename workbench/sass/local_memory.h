// Local memory traffic, told apart: registers that were spilled, and arrays that are indexed at run time.
#pragma once

#include <vector>

#include "workbench/sass/flow.h"
#include "workbench/sass/program.h"

namespace pinch::sass {

struct LocalAccess {
  int instruction = 0;
  bool is_store = false;
  bool is_spill = false;  ///< else an array
  int loop = -1;          ///< innermost loop around it
};

struct LocalMemory {
  int spill_loads = 0, spill_stores = 0, array_loads = 0, array_stores = 0;  ///< instructions
  std::vector<LocalAccess> accesses;
};

/// Every LDL and STL. A disassembler that marks spills is believed. Without marks: an access by a computed address is
/// an array's, and so are accesses by constant address in a kernel that has computed ones, except to slots that a load
/// leaves for good (LDL.LU), which only spills do.
[[nodiscard]] LocalMemory local_memory(const Kernel& kernel, const Flow& flow);

}  // namespace pinch::sass
