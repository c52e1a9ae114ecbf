#include "workbench/sass/flow.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace pinch::sass {
namespace {

bool is_branch(const Instruction& i) {
  return i.is("BRA") || i.is("JMP");
}

bool ends_block(const Instruction& i) {
  constexpr std::string_view kInitials = "BCEJR";  // of the names below; most instructions have another
  if (i.mnemonic.empty() || kInitials.find(i.mnemonic.front()) == std::string_view::npos) return false;
  const std::string_view base = i.base();
  return base == "BRA" || base == "BRX" || base == "JMP" || base == "JMX" || base == "EXIT" || base == "RET" ||
         base == "CALL";
}

class Builder {
 public:
  explicit Builder(const Kernel& kernel) : code_(kernel.instructions) {}

  Flow build() {
    if (code_.empty()) return {};
    split();
    connect();
    order();
    dominators();
    loops();
    roles();
    return std::move(flow_);
  }

 private:
  void split() {
    std::vector<bool> leads(code_.size() + 1, false);
    leads[0] = true;
    for (std::size_t i = 0; i < code_.size(); ++i) {
      if (code_[i].target != kNoTarget && (is_branch(code_[i]) || code_[i].is("CALL")))
        leads[static_cast<std::size_t>(code_[i].target)] = true;
      if (ends_block(code_[i])) leads[i + 1] = true;
    }
    for (std::size_t i = 0; i < code_.size(); ++i) {
      if (leads[i]) {
        flow_.blocks.emplace_back();
        flow_.blocks.back().first = static_cast<int>(i);
      }
      flow_.blocks.back().last = static_cast<int>(i) + 1;
    }
  }

  void connect() {
    roots_.push_back(0);
    bool indirect = false;
    const int count = static_cast<int>(flow_.blocks.size());
    for (int b = 0; b < count; ++b) {
      const Instruction& last = code_[static_cast<std::size_t>(flow_.blocks[b].last - 1)];
      if (falls_through(last) && b + 1 < count) edge(b, b + 1);
      if (last.target != kNoTarget && is_branch(last)) edge(b, flow_.block_of(last.target));
      if (last.target != kNoTarget && last.is("CALL")) roots_.push_back(flow_.block_of(last.target));
      indirect |= last.is("BRX") || last.is("JMX");
    }
    // Where a table holds the targets, every block that nothing else leads to may be one.
    for (int b = 1; indirect && b < count; ++b) {
      if (flow_.blocks[b].predecessors.empty()) roots_.push_back(b);
    }
  }

  void edge(int from, int to) {
    flow_.blocks[from].successors.push_back(to);
    flow_.blocks[to].predecessors.push_back(from);
  }

  // Preorder from every root, with an explicit stack: a kernel may have 100,000 blocks. Place 0 stands above the roots.
  void order() {
    preorder_.assign(1, -1);
    parent_.assign(1, 0);
    number_.assign(flow_.blocks.size(), 0);
    std::vector<std::pair<int, std::size_t>> stack;
    const auto visit = [&](int block, int parent) {
      if (flow_.blocks[block].reachable) return;
      flow_.blocks[block].reachable = true;
      number_[static_cast<std::size_t>(block)] = static_cast<int>(preorder_.size());
      preorder_.push_back(block);
      parent_.push_back(parent);
      stack.emplace_back(block, 0);
    };
    for (const int root : roots_) {
      visit(root, 0);
      while (!stack.empty()) {
        auto& [block, next] = stack.back();
        ++flow_.steps;
        if (next == flow_.blocks[block].successors.size()) {
          stack.pop_back();
        } else {
          const int from = block;
          visit(flow_.blocks[from].successors[next++], number_[static_cast<std::size_t>(from)]);
        }
      }
    }
  }

  // Lengauer and Tarjan, "A Fast Algorithm for Finding Dominators in a Flowgraph", with path compression alone:
  // n log n whatever the branches. All in numbers of the preorder.
  void dominators() {
    const std::size_t count = preorder_.size();
    std::vector<int> dominator(count, 0), bucket(count, 0), next_in_bucket(count, 0);
    semi_.resize(count);
    best_.resize(count);
    ancestor_.assign(count, kNone);
    for (std::size_t i = 0; i < count; ++i) semi_[i] = best_[i] = static_cast<int>(i);
    std::vector<bool> is_root(flow_.blocks.size(), false);
    for (const int root : roots_) is_root[static_cast<std::size_t>(root)] = true;
    for (int w = static_cast<int>(count) - 1; w > 0; --w) {
      const auto at = static_cast<std::size_t>(w);
      const int block = preorder_[at];
      if (is_root[static_cast<std::size_t>(block)]) semi_[at] = 0;
      for (const int p : flow_.blocks[block].predecessors) {
        if (!flow_.blocks[p].reachable) continue;
        semi_[at] = std::min(semi_[at], semi_[static_cast<std::size_t>(least(number_[static_cast<std::size_t>(p)]))]);
      }
      next_in_bucket[at] = bucket[static_cast<std::size_t>(semi_[at])];
      bucket[static_cast<std::size_t>(semi_[at])] = w;
      const int parent = parent_[at];
      ancestor_[at] = parent;
      for (int v = std::exchange(bucket[static_cast<std::size_t>(parent)], 0); v != 0;
           v = next_in_bucket[static_cast<std::size_t>(v)]) {
        const int u = least(v);
        dominator[static_cast<std::size_t>(v)] =
            semi_[static_cast<std::size_t>(u)] < semi_[static_cast<std::size_t>(v)] ? u : parent;
      }
    }
    for (std::size_t w = 1; w < count; ++w) {
      if (dominator[w] != semi_[w]) dominator[w] = dominator[static_cast<std::size_t>(dominator[w])];
      flow_.blocks[preorder_[w]].dominator = preorder_[static_cast<std::size_t>(dominator[w])];
    }
    place(dominator);
  }

  // The number of the least semidominator on the way up from `v`, in the forest that is linked so far.
  int least(int v) {
    path_.clear();
    for (int at = v; ancestor_[static_cast<std::size_t>(at)] != kNone; at = ancestor_[static_cast<std::size_t>(at)])
      path_.push_back(static_cast<std::size_t>(at));
    flow_.steps += path_.size() + 1;
    for (std::size_t i = path_.size(); i-- > 1;) {  // what is linked to the top keeps its own
      const std::size_t at = path_[i - 1], upper = path_[i];
      if (semi_[static_cast<std::size_t>(best_[upper])] < semi_[static_cast<std::size_t>(best_[at])])
        best_[at] = best_[upper];
      ancestor_[at] = ancestor_[upper];
    }
    return best_[static_cast<std::size_t>(v)];
  }

  // A block and all that it dominates get neighbouring places. A dominator comes first in the preorder too.
  void place(const std::vector<int>& dominator) {
    std::vector<int>&dominated = semi_, &next = best_;  // which are done with
    dominated.assign(preorder_.size(), 1);
    next.assign(preorder_.size(), 0);
    for (std::size_t w = preorder_.size() - 1; w > 0; --w)
      dominated[static_cast<std::size_t>(dominator[w])] += dominated[w];
    for (std::size_t w = 1; w < preorder_.size(); ++w) {
      int& free = next[static_cast<std::size_t>(dominator[w])];
      Block& block = flow_.blocks[preorder_[w]];
      block.place = free;
      block.dominated = dominated[w];
      free += dominated[w];
      next[w] = block.place + 1;
    }
  }

  // Natural loops, inner ones first: a header comes behind those of the loops around it in the preorder. What reaches a
  // latch without passing the header is the loop's; an inner loop is stepped over as a whole.
  void loops() {
    std::vector<std::vector<int>> latches(flow_.blocks.size());
    for (std::size_t w = 1; w < preorder_.size(); ++w) {
      const int b = preorder_[w];
      for (const int to : flow_.blocks[b].successors) {
        if (flow_.dominates(to, b)) latches[static_cast<std::size_t>(to)].push_back(b);
      }
    }
    std::vector<int> loop_of(flow_.blocks.size(), -1);  // by header
    for (std::size_t h = 0; h < latches.size(); ++h) {
      if (latches[h].empty()) continue;
      loop_of[h] = static_cast<int>(flow_.loops.size());
      flow_.loops.emplace_back().header = static_cast<int>(h);
    }
    outermost_.resize(flow_.loops.size());
    for (std::size_t l = 0; l < outermost_.size(); ++l) outermost_[l] = static_cast<int>(l);
    for (std::size_t w = preorder_.size() - 1; w > 0; --w) {
      const int header = preorder_[w], loop = loop_of[static_cast<std::size_t>(header)];
      if (loop >= 0) claim(loop, header, latches[static_cast<std::size_t>(header)]);
    }
    for (std::size_t w = 1; w < preorder_.size(); ++w) {  // outer loops first
      const int loop = loop_of[static_cast<std::size_t>(preorder_[w])];
      if (loop < 0 || flow_.loops[loop].parent < 0) continue;
      flow_.loops[loop].depth = flow_.loops[flow_.loops[loop].parent].depth + 1;
      flow_.loops[flow_.loops[loop].parent].innermost = false;
    }
    fill(latches, loop_of);
  }

  void claim(int loop, int header, const std::vector<int>& latches) {
    std::vector<int> work = latches;
    flow_.blocks[header].loop = loop;
    while (!work.empty()) {
      const int b = work.back();
      work.pop_back();
      ++flow_.steps;
      if (!flow_.blocks[b].reachable) continue;
      int inside = b;
      if (flow_.blocks[b].loop < 0) {
        flow_.blocks[b].loop = loop;
      } else {
        const int inner = outermost(flow_.blocks[b].loop);
        if (inner == loop) continue;
        flow_.loops[inner].parent = outermost_[static_cast<std::size_t>(inner)] = loop;
        inside = flow_.loops[inner].header;
      }
      const auto& before = flow_.blocks[inside].predecessors;
      work.insert(work.end(), before.begin(), before.end());
    }
  }

  // The outermost loop found so far around `loop`.
  int outermost(int loop) {
    int top = loop;
    for (; outermost_[static_cast<std::size_t>(top)] != top; ++flow_.steps)
      top = outermost_[static_cast<std::size_t>(top)];
    while (outermost_[static_cast<std::size_t>(loop)] != top)
      loop = std::exchange(outermost_[static_cast<std::size_t>(loop)], top);
    return top;
  }

  // Blocks, extents and paths. What dominates every latch is what every iteration executes.
  void fill(const std::vector<std::vector<int>>& latches, const std::vector<int>& loop_of) {
    std::vector<int> common(flow_.loops.size(), -1);
    for (std::size_t l = 0; l < common.size(); ++l) {
      const auto& ends = latches[static_cast<std::size_t>(flow_.loops[l].header)];
      int block = ends.front();
      for (const int latch : ends) {
        for (; !flow_.dominates(block, latch); ++flow_.steps) block = flow_.blocks[block].dominator;
      }
      common[l] = block;
      flow_.loops[l].first = static_cast<int>(code_.size());
    }
    for (int b = 0; b < static_cast<int>(flow_.blocks.size()); ++b) {
      const Block& block = flow_.blocks[b];
      int l = block.loop;
      if (l >= 0) extend(flow_.loops[l], block.first, block.last, block.last - block.first);
      for (int level = 0; l >= 0 && level < kListedLevels; ++level, l = flow_.loops[l].parent) {
        Loop& loop = flow_.loops[l];
        ++flow_.steps;
        loop.blocks.push_back(b);
        if (!flow_.dominates(b, common[static_cast<std::size_t>(l)])) continue;
        for (int i = block.first; i < block.last; ++i) loop.path.push_back(i);
      }
    }
    for (std::size_t w = preorder_.size() - 1; w > 0; --w) {  // inner loops first
      const int l = loop_of[static_cast<std::size_t>(preorder_[w])];
      if (l < 0) continue;
      Loop& loop = flow_.loops[l];
      loop.spins = spins(loop);
      if (loop.parent >= 0) extend(flow_.loops[loop.parent], loop.first, loop.last, loop.instructions);
    }
  }

  static void extend(Loop& loop, int first, int last, int instructions) {
    loop.first = std::min(loop.first, first);
    loop.last = std::max(loop.last, last);
    loop.instructions += instructions;
  }

  bool spins(const Loop& loop) const {
    constexpr int kLongestSpin = 16;
    if (loop.instructions > kLongestSpin) return false;
    bool waits = false;
    for (const int b : loop.blocks) {
      for (int i = flow_.blocks[b].first; i < flow_.blocks[b].last; ++i) {
        const Instruction& instruction = code_[static_cast<std::size_t>(i)];
        waits |= instruction.is("SYNCS") || instruction.is("USETMAXREG") || instruction.is("NANOSLEEP");
        for (const char* computes : {"FFMA", "HFMA2", "HMMA", "HGMMA", "MUFU", "LDG", "STG", "LDS", "STS"}) {
          if (instruction.is(computes)) return false;
        }
      }
    }
    return waits;
  }

  void roles() {
    int producers = 0, consumers = 0;
    std::vector<int> role_blocks;
    for (std::size_t i = 0; i < code_.size(); ++i) {
      if (!code_[i].is("USETMAXREG")) continue;
      const int block = flow_.block_of(static_cast<int>(i));
      if (!flow_.blocks[block].reachable) continue;
      const bool gives = code_[i].has_modifier("DEALLOC");
      int& count = gives ? producers : consumers;
      ++count;
      Role role{fmt::format("{}{}", gives ? "producer" : "consumer", count > 1 ? fmt::format("{}", count) : ""), -1,
                block};
      const auto at = code_[i].operands.rfind("0x");
      if (at != std::string_view::npos) {
        std::from_chars(code_[i].operands.data() + at + 2, code_[i].operands.data() + code_[i].operands.size(),
                        role.registers, 16);
      }
      if (at == std::string_view::npos && code_[i].has_word)
        role.registers = static_cast<int>(code_[i].low >> 32 & 0x1ff);
      flow_.roles.push_back(role);
    }
    if (flow_.roles.empty()) return;
    std::vector<int> role_of(flow_.blocks.size(), -1);  // the last role that dominates the block
    for (std::size_t r = 0; r < flow_.roles.size(); ++r)
      role_of[static_cast<std::size_t>(flow_.roles[r].block)] = static_cast<int>(r);
    for (std::size_t w = 1; w < preorder_.size(); ++w) {
      const int dominator = flow_.blocks[preorder_[w]].dominator;
      if (dominator < 0) continue;
      int& role = role_of[static_cast<std::size_t>(preorder_[w])];
      role = std::max(role, role_of[static_cast<std::size_t>(dominator)]);
    }
    for (Loop& loop : flow_.loops) {
      const int role = role_of[static_cast<std::size_t>(loop.header)];
      if (role >= 0) loop.role = flow_.roles[static_cast<std::size_t>(role)].name;
    }
  }

  static constexpr int kNone = -1;
  const std::vector<Instruction>& code_;
  Flow flow_;
  std::vector<int> roots_, number_, preorder_, parent_;
  std::vector<int> semi_, best_, ancestor_, outermost_;
  std::vector<std::size_t> path_;
};

}  // namespace

bool falls_through(const Instruction& instruction) {
  return instruction.is("CALL") || instruction.conditional || !ends_block(instruction);
}

bool Flow::dominates(int a, int b) const {
  const Block &above = blocks[static_cast<std::size_t>(a)], &below = blocks[static_cast<std::size_t>(b)];
  return a == b || (above.reachable && below.reachable && above.place <= below.place &&
                    below.place < above.place + above.dominated);
}

int Flow::block_of(int instruction) const {
  const auto found =
      std::upper_bound(blocks.begin(), blocks.end(), instruction, [](int i, const Block& b) { return i < b.first; });
  return static_cast<int>(found - blocks.begin()) - 1;
}

Flow analyse_flow(const Kernel& kernel) {
  return Builder(kernel).build();
}

std::uint32_t begin_offset(const Kernel& kernel, const Loop& loop) {
  return kernel.instructions[static_cast<std::size_t>(loop.first)].offset;
}

std::uint32_t end_offset(const Kernel& kernel, const Loop& loop) {
  return kernel.instructions[static_cast<std::size_t>(loop.last - 1)].offset + kInstructionBytes;
}

}  // namespace pinch::sass
