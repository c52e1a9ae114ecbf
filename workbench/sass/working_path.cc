#include "workbench/sass/working_path.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace pinch::sass {
namespace {

struct Work {
  double products = 0;  // cycles of the tensor core
  int instructions = 0;
  friend bool operator<(const Work& a, const Work& b) {
    return a.products != b.products ? a.products < b.products : a.instructions > b.instructions;
  }
};

class Walk {
 public:
  Walk(const Flow& flow, const Loop& loop, const std::vector<double>& products)
      : flow_(flow), loop_(loop), products_(products), places_(loop.blocks.size()) {}

  // Blocks from the header to a latch; empty where no way leads round.
  std::vector<int> blocks() {
    visit();
    std::vector<int> way;
    std::optional<std::size_t> at = place_of(loop_.header);
    if (!at || !places_[*at].rest) return way;
    for (; at; at = places_[*at].next) way.push_back(loop_.blocks[*at]);
    return way;
  }

 private:
  enum class State : char { kNotSeen, kOpen, kDone };
  struct Place {  // of a block among the loop's
    State state = State::kNotSeen;
    std::optional<Work> rest;         // of the iteration, from here on
    std::optional<std::size_t> next;  // none: the iteration ends
  };

  std::optional<std::size_t> place_of(int block) const {
    const auto found = std::lower_bound(loop_.blocks.begin(), loop_.blocks.end(), block);
    if (found == loop_.blocks.end() || *found != block) return std::nullopt;
    return static_cast<std::size_t>(found - loop_.blocks.begin());
  }

  // Depth first, with an explicit stack; an edge to a block that is still open goes back to an inner loop's header.
  void visit() {
    std::vector<std::pair<std::size_t, std::size_t>> stack;  // a place, and the edge to take next
    const auto open = [&](std::optional<std::size_t> at) {
      if (!at || places_[*at].state != State::kNotSeen) return;
      places_[*at].state = State::kOpen;
      stack.emplace_back(*at, 0);
    };
    open(place_of(loop_.header));
    while (!stack.empty()) {
      auto& [at, edge] = stack.back();
      const Block& block = flow_.blocks[static_cast<std::size_t>(loop_.blocks[at])];
      if (edge < block.successors.size()) {
        open(place_of(block.successors[edge++]));
        continue;
      }
      settle(places_[at], block, products_[static_cast<std::size_t>(loop_.blocks[at])]);
      stack.pop_back();
    }
  }

  void settle(Place& place, const Block& block, double products) const {
    for (const int successor : block.successors) {
      const bool ends = successor == loop_.header;
      const auto to = ends ? std::nullopt : place_of(successor);
      if (!ends && (!to || places_[*to].state != State::kDone || !places_[*to].rest)) continue;
      const Work work = ends ? Work{} : *places_[*to].rest;
      if (place.rest && !(*place.rest < work)) continue;
      place.rest = work;
      place.next = to;
    }
    place.state = State::kDone;
    if (!place.rest) return;
    place.rest->products += products;
    place.rest->instructions += block.last - block.first;
  }

  const Flow& flow_;
  const Loop& loop_;
  const std::vector<double>& products_;
  std::vector<Place> places_;
};

}  // namespace

void take_products(const Kernel& kernel, const Machine& machine, Flow& flow) {
  std::unordered_map<std::string_view, double> known;  // by mnemonic, which a program repeats
  std::vector<double> products(flow.blocks.size(), 0);
  std::vector<bool> multiplies(flow.loops.size(), false);
  for (std::size_t b = 0; b < flow.blocks.size(); ++b) {
    const Block& block = flow.blocks[b];
    if (block.loop < 0) continue;
    for (int i = block.first; i < block.last; ++i) {
      const Instruction& instruction = kernel.instructions[static_cast<std::size_t>(i)];
      const auto [slot, is_new] = known.try_emplace(instruction.mnemonic);
      if (is_new) slot->second = machine.cost(instruction).uses[static_cast<std::size_t>(Pipe::kTensor)];
      products[b] += slot->second;
    }
    if (products[b] > 0) multiplies[static_cast<std::size_t>(block.loop)] = true;
  }
  for (std::size_t l = 0; l < flow.loops.size(); ++l) {
    Loop& loop = flow.loops[l];
    if (!multiplies[l]) continue;
    const bool always = std::any_of(loop.path.begin(), loop.path.end(), [&](int i) {
      return known[kernel.instructions[static_cast<std::size_t>(i)].mnemonic] > 0;
    });
    if (always) continue;
    const std::vector<int> way = Walk(flow, loop, products).blocks();
    if (way.empty()) continue;
    loop.path.clear();
    loop.branches = true;
    for (const int b : way) {
      for (int i = flow.blocks[static_cast<std::size_t>(b)].first; i < flow.blocks[static_cast<std::size_t>(b)].last;
           ++i)
        loop.path.push_back(i);
    }
  }
}

}  // namespace pinch::sass
