#include "workbench/sass/flow.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

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

bool falls_through(const Instruction& i) {
  if (i.is("CALL")) return true;
  return !ends_block(i) || i.conditional;
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

  // Reverse postorder from every root, with an explicit stack: a kernel may have 100,000 blocks.
  void order() {
    position_.assign(flow_.blocks.size(), -1);
    std::vector<int> postorder;
    std::vector<std::pair<int, std::size_t>> stack;
    for (auto root = roots_.rbegin(); root != roots_.rend(); ++root) {
      if (flow_.blocks[*root].reachable) continue;
      flow_.blocks[*root].reachable = true;
      stack.emplace_back(*root, 0);
      while (!stack.empty()) {
        auto& [block, next] = stack.back();
        if (next == flow_.blocks[block].successors.size()) {
          postorder.push_back(block);
          stack.pop_back();
          continue;
        }
        const int to = flow_.blocks[block].successors[next++];
        if (!flow_.blocks[to].reachable) {
          flow_.blocks[to].reachable = true;
          stack.emplace_back(to, 0);
        }
      }
    }
    order_.assign(postorder.rbegin(), postorder.rend());
    for (std::size_t i = 0; i < order_.size(); ++i)
      position_[static_cast<std::size_t>(order_[i])] = static_cast<int>(i);
  }

  // Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm"; -1 stands for the common parent of the roots.
  void dominators() {
    std::vector<bool> is_root(flow_.blocks.size(), false), known(flow_.blocks.size(), false);
    for (const int root : roots_)
      is_root[static_cast<std::size_t>(root)] = known[static_cast<std::size_t>(root)] = true;
    for (bool changed = true; changed;) {
      changed = false;
      for (const int b : order_) {
        if (is_root[static_cast<std::size_t>(b)]) continue;
        int meet = kUnset;
        for (const int p : flow_.blocks[b].predecessors) {
          if (!flow_.blocks[p].reachable || !known[static_cast<std::size_t>(p)]) continue;
          meet = meet == kUnset ? p : intersect(meet, p);
        }
        if (meet == kUnset) continue;
        if (!known[static_cast<std::size_t>(b)] || flow_.blocks[b].dominator != meet) {
          flow_.blocks[b].dominator = meet;
          known[static_cast<std::size_t>(b)] = true;
          changed = true;
        }
      }
    }
  }

  int intersect(int a, int b) const {
    while (a != b) {
      while (a != -1 && (b == -1 || position_[static_cast<std::size_t>(a)] > position_[static_cast<std::size_t>(b)]))
        a = flow_.blocks[a].dominator;
      while (b != -1 && (a == -1 || position_[static_cast<std::size_t>(b)] > position_[static_cast<std::size_t>(a)]))
        b = flow_.blocks[b].dominator;
    }
    return a;
  }

  void loops() {
    std::vector<std::vector<int>> latches(flow_.blocks.size());
    for (const int b : order_) {
      for (const int to : flow_.blocks[b].successors) {
        const bool goes_back = position_[static_cast<std::size_t>(to)] <= position_[static_cast<std::size_t>(b)];
        if (goes_back && flow_.dominates(to, b)) latches[static_cast<std::size_t>(to)].push_back(b);
      }
    }
    for (std::size_t h = 0; h < latches.size(); ++h) {
      if (!latches[h].empty()) loop(static_cast<int>(h), latches[h]);
    }
    // Larger loops first: the last loop that claims a block is its innermost.
    std::vector<int> by_size(flow_.loops.size());
    for (std::size_t i = 0; i < by_size.size(); ++i) by_size[i] = static_cast<int>(i);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](int a, int b) { return flow_.loops[a].blocks.size() > flow_.loops[b].blocks.size(); });
    for (const int l : by_size) {
      Loop& made = flow_.loops[l];
      made.parent = flow_.blocks[made.header].loop;
      if (made.parent >= 0) {
        made.depth = flow_.loops[made.parent].depth + 1;
        flow_.loops[made.parent].innermost = false;
      }
      for (const int b : made.blocks) flow_.blocks[b].loop = l;
    }
  }

  // The natural loop of a header: what reaches a latch without passing the header.
  void loop(int header, const std::vector<int>& latches) {
    Loop made;
    made.header = header;
    std::vector<int> work;
    seen_.resize(flow_.blocks.size(), -1);
    const int mark = header;
    const auto visit = [&](int b) {
      if (seen_[static_cast<std::size_t>(b)] == mark || !flow_.blocks[b].reachable) return;
      seen_[static_cast<std::size_t>(b)] = mark;
      made.blocks.push_back(b);
      work.push_back(b);
    };
    seen_[static_cast<std::size_t>(header)] = mark;
    made.blocks.push_back(header);
    for (const int latch : latches) visit(latch);
    while (!work.empty()) {
      const int b = work.back();
      work.pop_back();
      for (const int p : flow_.blocks[b].predecessors) visit(p);
    }
    std::sort(made.blocks.begin(), made.blocks.end());
    // What dominates every latch is what every iteration executes.
    std::vector<std::size_t> latches_dominated(made.blocks.size(), 0);
    for (const int latch : latches) {
      for (int at = latch;; at = flow_.blocks[at].dominator) {
        const auto slot = std::lower_bound(made.blocks.begin(), made.blocks.end(), at) - made.blocks.begin();
        ++latches_dominated[static_cast<std::size_t>(slot)];
        if (at == header) break;
      }
    }
    bool waits = false, computes = false;
    for (std::size_t slot = 0; slot < made.blocks.size(); ++slot) {
      const int b = made.blocks[slot];
      const bool always = latches_dominated[slot] == latches.size();
      for (int i = flow_.blocks[b].first; i < flow_.blocks[b].last; ++i) {
        made.instructions.push_back(i);
        if (always) made.path.push_back(i);
        const Instruction& instruction = code_[static_cast<std::size_t>(i)];
        waits |= instruction.is("SYNCS") || instruction.is("USETMAXREG") || instruction.is("NANOSLEEP");
        computes |= instruction.is("FFMA") || instruction.is("HFMA2") || instruction.is("HMMA") ||
                    instruction.is("HGMMA") || instruction.is("MUFU") || instruction.is("LDG") ||
                    instruction.is("STG") || instruction.is("LDS") || instruction.is("STS");
      }
    }
    constexpr std::size_t kLongestSpin = 16;
    made.spins = waits && !computes && made.instructions.size() <= kLongestSpin;
    flow_.loops.push_back(std::move(made));
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
    for (Loop& made : flow_.loops) {
      for (const Role& role : flow_.roles) {
        if (flow_.dominates(role.block, made.header)) made.role = role.name;
      }
    }
  }

  static constexpr int kUnset = -2;
  const std::vector<Instruction>& code_;
  Flow flow_;
  std::vector<int> roots_, order_, position_, seen_;
};

}  // namespace

bool Flow::dominates(int a, int b) const {
  // A dominator starts no later in reverse postorder; walking up from b ends at a root.
  for (int at = b; at != -1; at = blocks[at].dominator) {
    if (at == a) return true;
  }
  return false;
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
  return kernel.instructions[static_cast<std::size_t>(loop.instructions.front())].offset;
}

std::uint32_t end_offset(const Kernel& kernel, const Loop& loop) {
  return kernel.instructions[static_cast<std::size_t>(loop.instructions.back())].offset + kInstructionBytes;
}

}  // namespace pinch::sass
