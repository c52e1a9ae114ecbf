// Control flow of a kernel: basic blocks, dominators, natural loops with nesting, and the roles of specialised warps.
#pragma once

#include <string>
#include <vector>

#include "workbench/sass/program.h"

namespace pinch::sass {

struct Block {
  int first = 0, last = 0;  ///< instructions [first, last)
  std::vector<int> successors, predecessors;
  int dominator = -1;  ///< immediate; -1 for a root
  int loop = -1;       ///< innermost loop
  int place = 0;       ///< in a walk down the dominator tree, where it and what it dominates are neighbours
  int dominated = 0;   ///< blocks that it dominates, itself included
  bool reachable = false;
};

/// Levels of inner loops that a loop lists. Those further in are left out of `blocks` and `path`, as code that a bound
/// may leave out: no source nests so deep, and in a nest of any depth all levels of all loops are the square of it.
inline constexpr int kListedLevels = 16;

struct Loop {
  int header = 0;   ///< block
  int parent = -1;  ///< loop
  int depth = 1;    ///< 1 for an outermost loop
  bool innermost = true;
  bool spins = false;       ///< waits for others: tries a barrier or registers again and computes nothing
  int first = 0, last = 0;  ///< instructions [first, last) hold the loop, and what lies between its blocks
  int instructions = 0;     ///< in all its blocks, with those of inner loops
  std::vector<int> blocks;  ///< ascending
  std::vector<int> path;    ///< instructions that every iteration executes, in layout order
  bool branches = false;    ///< `path` is of an iteration that takes its products' branches, in its order
  std::string role;         ///< of the warps that run it; empty where all do
};

/// Warps that set their register count: the code that only they reach.
struct Role {
  std::string name;  ///< "producer" gives registers back, "consumer" takes more; numbered where several
  int registers = -1;
  int block = 0;  ///< where the count is set; the role is all that this block dominates
};

struct Flow {
  std::vector<Block> blocks;
  std::vector<Loop> loops;  ///< by first instruction, an outer loop before its inner ones
  std::vector<Role> roles;
  std::size_t steps = 0;  ///< that the analysis took: in proportion to the blocks, whatever their branches

  [[nodiscard]] bool dominates(int a, int b) const;
  [[nodiscard]] int block_of(int instruction) const;
};

/// True where what stands behind `instruction` may run next.
[[nodiscard]] bool falls_through(const Instruction& instruction);

/// The flow of `kernel`. Targets of calls are roots of their own: a subroutine's loops are found, and a call falls
/// through.
[[nodiscard]] Flow analyse_flow(const Kernel& kernel);

/// Bytes from the start of the section to the first instruction of the loop, and to the end of its last.
[[nodiscard]] std::uint32_t begin_offset(const Kernel& kernel, const Loop& loop);
[[nodiscard]] std::uint32_t end_offset(const Kernel& kernel, const Loop& loop);

}  // namespace pinch::sass
