#include "src/tactics/default_memo.h"

#include <algorithm>
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

std::size_t DefaultMemo::Key::set() const {
  // Independent products first, because a chain of them costs its latency on each call; then one more, because sums of
  // products alone put shapes that step evenly into few sets. The factors are odd and have no other meaning.
  constexpr std::array<std::uint64_t, kKeyWords> kFactors{0x9E3779B97F4A7C15u, 0xD1B54A32D192ED03u, 0xABC98388FB8FAC03u,
                                                          0x8CB92BA72F3D8DD7u, 0xF1BBCDCBFA53E0AFu};
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < kKeyWords; ++i) hash += words[i] * kFactors[i];
  return ((hash ^ hash >> 32) * kFactors[0]) >> (64 - std::countr_zero(kSets));
}

std::optional<RankedTactic> DefaultMemo::find(const Key& key) const {
  for (const Slot& slot : sets_[key.set()]) {
    if (auto pick = read(slot, key)) return pick;
  }
  return std::nullopt;
}

std::optional<RankedTactic> DefaultMemo::read(const Slot& slot, const Key& key) const {
  const std::uint64_t before = slot.sequence.load(std::memory_order_acquire);
  std::uint64_t differs = before % 2;
  for (std::size_t i = 0; i < kKeyWords; ++i) differs |= slot.words[i].load(std::memory_order_relaxed) ^ key.words[i];
  if (differs != 0) return std::nullopt;
  std::array<std::uint64_t, kWords - kKeyWords> value;
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = slot.words[kKeyWords + i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.sequence.load(std::memory_order_relaxed) != before) return std::nullopt;
  return RankedTactic{
      .index = value[0],
      .estimate = {.cost = std::bit_cast<double>(value[1]),
                   .unit = {reinterpret_cast<const char*>(value[2]), static_cast<std::size_t>(value[3])},
                   .ctas = static_cast<std::int64_t>(value[4]),
                   .waves = static_cast<std::int64_t>(value[5])}};
}

void DefaultMemo::store(const Key& key, const RankedTactic& pick) {
  // The slot written less often: an empty one first, then the two in turn.
  auto& ways = sets_[key.set()];
  Slot& slot = ways[1].sequence.load(std::memory_order_relaxed) < ways[0].sequence.load(std::memory_order_relaxed)
                   ? ways[1]
                   : ways[0];
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
