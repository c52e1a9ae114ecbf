#include "src/tactics/default_memo.h"

#include <bit>

namespace pinch {

DefaultMemo::Key DefaultMemo::Key::of(const TacticFamily& family, std::size_t model, const GemmProblem& problem,
                                      const Resources& resources) {
  return {{family.identity() << 16 | model << 8 | static_cast<std::uint64_t>(problem.format) << 4 |
               static_cast<std::uint64_t>(problem.output),
           static_cast<std::uint64_t>(problem.m), static_cast<std::uint64_t>(problem.n),
           static_cast<std::uint64_t>(problem.k),
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(resources.sm_count)) << 32 |
               static_cast<std::uint32_t>(resources.threads)}};
}

std::size_t DefaultMemo::Key::slot() const {
  // Sizes are often multiples of powers of two: the high half of a product with an odd constant still differs.
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) hash = std::rotl((hash ^ word) * 0x9E3779B97F4A7C15u, 29);
  return hash % kSlots;
}

std::optional<RankedTactic> DefaultMemo::find(const Key& key) const {
  const Slot& slot = slots_[key.slot()];
  const std::uint64_t before = slot.sequence.load(std::memory_order_acquire);
  std::array<std::uint64_t, kWords> words;
  for (std::size_t i = 0; i < kWords; ++i) words[i] = slot.words[i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool whole = before % 2 == 0 && slot.sequence.load(std::memory_order_relaxed) == before;
  if (!whole || !std::equal(key.words.begin(), key.words.end(), words.begin())) return std::nullopt;
  const std::uint64_t* value = words.data() + kKeyWords;
  return RankedTactic{
      .index = value[0],
      .estimate = {.cost = std::bit_cast<double>(value[1]),
                   .unit = {reinterpret_cast<const char*>(value[2]), static_cast<std::size_t>(value[3])},
                   .ctas = static_cast<std::int64_t>(value[4]),
                   .waves = static_cast<std::int64_t>(value[5])}};
}

void DefaultMemo::store(const Key& key, const RankedTactic& pick) {
  Slot& slot = slots_[key.slot()];
  std::uint64_t sequence = slot.sequence.load(std::memory_order_relaxed);
  if (sequence % 2 != 0 || !slot.sequence.compare_exchange_strong(sequence, sequence + 1, std::memory_order_acquire,
                                                                  std::memory_order_relaxed)) {
    return;
  }
  std::atomic_thread_fence(std::memory_order_release);
  std::array<std::uint64_t, kWords> words;
  std::copy(key.words.begin(), key.words.end(), words.begin());
  const Estimate& estimate = pick.estimate;
  const std::array<std::uint64_t, kWords - kKeyWords> value{pick.index,
                                                            std::bit_cast<std::uint64_t>(estimate.cost),
                                                            reinterpret_cast<std::uint64_t>(estimate.unit.data()),
                                                            estimate.unit.size(),
                                                            static_cast<std::uint64_t>(estimate.ctas),
                                                            static_cast<std::uint64_t>(estimate.waves)};
  std::copy(value.begin(), value.end(), words.begin() + kKeyWords);
  for (std::size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
  slot.sequence.store(sequence + 2, std::memory_order_release);
}

}  // namespace pinch
