// Remembers the default tactic of recent problems. A hit takes no lock and writes nothing shared.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "pinch/tactics.h"

namespace pinch {

/// A direct-mapped table of seqlocked slots: memory is bounded, a collision forgets the older problem, and a writer
/// that meets another one gives up, because a pick not remembered costs only its recomputation.
class DefaultMemo {
 public:
  /// What a pick depends on, packed without loss.
  struct Key {
    std::array<std::uint64_t, 5> words;
    static Key of(const TacticFamily& family, std::size_t model, const GemmProblem& problem,
                  const Resources& resources);
    [[nodiscard]] std::size_t slot() const;
  };

  DefaultMemo() : slots_(std::make_unique<Slot[]>(kSlots)) {}

  [[nodiscard]] std::optional<RankedTactic> find(const Key& key) const;
  void store(const Key& key, const RankedTactic& pick);

  // Every layer shape of a few models at many batch sizes; 128 KiB.
  static constexpr std::size_t kSlots = 1024;

 private:
  static constexpr std::size_t kKeyWords = 5, kWords = kKeyWords + 6;
  struct alignas(128) Slot {
    std::atomic<std::uint64_t> sequence{0};  // odd while being written
    std::array<std::atomic<std::uint64_t>, kWords> words{};
  };
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace pinch
