// Remembers the default tactic of recent problems. A hit takes no lock and writes nothing shared.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "pinch/tactics.h"

namespace pinch {

/// A table of seqlocked slots, two to a set: memory is bounded, a third problem of a set replaces one of the two, and a
/// writer that meets another one gives up, because a pick not remembered costs only its recomputation. With one slot to
/// a set and 1024 sets, 22% of 256 layer shapes shared a slot and missed at every call.
class DefaultMemo {
 public:
  static constexpr std::size_t kKeyWords = 5, kWords = kKeyWords + 6;

  /// What a pick depends on, packed without loss.
  struct Key {
    std::array<std::uint64_t, kKeyWords> words;
    static Key of(const TacticFamily& family, std::size_t model, const GemmProblem& problem,
                  const Resources& resources);
    [[nodiscard]] std::size_t set() const;
  };

  [[nodiscard]] std::optional<RankedTactic> find(const Key& key) const;
  void store(const Key& key, const RankedTactic& pick);

  // Every layer shape of a few models at many batch sizes: 512 KiB, of which the pages in use are touched.
  static constexpr std::size_t kSets = 2048, kWays = 2;

 private:
  struct alignas(128) Slot {
    std::atomic<std::uint64_t> sequence{0};  // odd while being written
    std::array<std::atomic<std::uint64_t>, kWords> words{};
  };
  std::optional<RankedTactic> read(const Slot& slot, const Key& key) const;

  std::array<std::array<Slot, kWays>, kSets> sets_{};
};

}  // namespace pinch
