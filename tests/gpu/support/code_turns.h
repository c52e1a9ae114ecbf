// Whose code a launch finds cached. A kernel right after a launch of itself is up to 10% faster, with an empty kernel
// or a plain read between the two as well (their code is too small to push another's out), and in a network no layer
// follows itself.
#pragma once

#include <optional>
#include <random>
#include <span>
#include <vector>

namespace pinch::gpu_test {

// A capture's compiled kernel; null: too small to count.
using Code = const void*;

class CodeTurns {
 public:
  explicit CodeTurns(std::span<const Code> captures) : captures_(captures.begin(), captures.end()) {}

  // The capture to launch before `next`, untimed: of another kernel, any of them alike, where the code of `next` is
  // what the last launch of any size left. Nothing where none is needed, or where all that counts is of one kernel.
  template <typename Random>
  std::optional<int> before(int next, Random& random) {
    std::optional<int> other;
    const Code code = captures_[static_cast<std::size_t>(next)];
    if (code == nullptr) return other;
    if (code == last_) {
      std::vector<int> others;
      for (int i = 0; i < static_cast<int>(captures_.size()); ++i) {
        const Code of = captures_[static_cast<std::size_t>(i)];
        if (of != nullptr && of != code) others.push_back(i);
      }
      if (!others.empty()) other = others[std::uniform_int_distribution<std::size_t>(0, others.size() - 1)(random)];
    }
    last_ = code;
    return other;
  }

 private:
  std::vector<Code> captures_;
  Code last_ = nullptr;
};

}  // namespace pinch::gpu_test
