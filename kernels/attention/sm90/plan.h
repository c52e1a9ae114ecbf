// What the host decides before a launch of the attention kernel: how query tiles are dealt out, what is prepared into
// the workspace, and why a tactic cannot run a problem. No CUDA header, so that all of it is tested without a GPU.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/attention/sm90/tactic.h"
#include "pinch/attention_problem.h"

namespace pinch::attention::sm90 {

struct DeviceFacts {
  int sm_count = 0;
  std::size_t l2_bytes = 0;
};

/// [batch, heads, rows, dim] of a device; dim is contiguous, strides count elements. With variable lengths the rows of
/// all sequences follow one another and batch_stride is not read.
struct Array {
  void* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
};

/// One call; every pointer is the device's.
struct LaunchCall {
  Array q, k, v;         // bf16
  Array o;               // bf16 or float, as the problem says
  float* lse = nullptr;  // natural; [batch, heads, seq], with variable lengths [heads, rows]; or null
  std::int64_t lse_batch_stride = 0;
  std::int64_t lse_head_stride = 0;
  float scale = 0;  // of the scores; above 0
  /// Variable lengths: batch + 1 ascending offsets each; both or none. The totals are their last elements, which the
  /// host must know. The kernel trusts what the offsets hold.
  const std::int32_t* cu_seqlens_q = nullptr;
  const std::int32_t* cu_seqlens_kv = nullptr;
  std::int64_t total_q = 0;
  std::int64_t total_kv = 0;
  void* workspace = nullptr;  // workspace_bytes() of them, the first kCounterBytes zeroed once
};

/// Alignment in bytes of q, k, v and the workspace; strides of q, k and v are multiples of kStrideMultiple elements,
/// those of o of 2.
inline constexpr std::size_t kAlignment = 16;
inline constexpr std::int64_t kStrideMultiple = 8;

/// Counters between CTAs, zero between launches.
inline constexpr std::size_t kCounterBytes = 256;

constexpr std::int64_t round_up_to(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

/// What prepare() writes, by offset from the workspace's begin; 0 bytes where the kind needs none of it. Sequences of
/// variable length keep the room of the longest.
struct Prepared {
  std::size_t amax;      // FP32, largest magnitudes: of q [batch, heads], of k and of v [batch, kv_heads]
  std::size_t q;         // e4m3 [batch, heads, seq, dim]
  std::size_t k;         // e4m3 [batch, kv_heads, kv_seq, dim]
  std::size_t v;         // fp8: e4m3 [batch, kv_heads, dim, padded_kv]; fp4: codes, in the kernel's order
  std::size_t v_scales;  // fp4: e4m3, in the kernel's order
  std::size_t bytes;     // of the whole workspace
  std::int64_t padded_kv;
};
/// Elements of a prepared row of Q or K: zeros follow a dim of 64, as the matrix unit reads rows of 128 bytes.
inline constexpr std::int64_t kFp8Row = 128;
inline constexpr std::int64_t kPreparedKeys = 128;  // V is prepared in tiles of so many keys

/// Of q, k and v in turn: (batch, head) pairs, and tiles of kPreparedKeys rows of one.
struct PreparedArray {
  std::int64_t heads, tiles;
};
constexpr std::array<PreparedArray, 3> prepared_arrays(const AttentionProblem& p) {
  const std::int64_t kv_tiles = round_up_to(p.kv_seq, kPreparedKeys) / kPreparedKeys;
  return {{{p.batch * p.heads, round_up_to(p.seq, kPreparedKeys) / kPreparedKeys},
           {p.batch * p.kv_heads, kv_tiles},
           {p.batch * p.kv_heads, kv_tiles}}};
}
/// Words at `amax`: the magnitudes of the heads of all three, then prepare()'s own, those of their tiles.
constexpr std::int64_t prepared_words(const AttentionProblem& p) {
  std::int64_t words = 0;
  for (const PreparedArray& array : prepared_arrays(p)) words += array.heads * (1 + array.tiles);
  return words;
}

constexpr Prepared prepared_layout(const AttentionProblem& p) {
  Prepared at{};
  at.padded_kv = round_up_to(p.kv_seq, kPreparedKeys);
  std::size_t end = kCounterBytes;
  const auto take = [&](std::int64_t bytes) {
    const std::size_t begin = end;
    end += static_cast<std::size_t>(round_up_to(bytes, 1024));
    return begin;
  };
  const std::int64_t values = p.batch * p.kv_heads * at.padded_kv * p.dim;
  at.amax = take(p.pv == PvType::kBf16 && p.qk == QkType::kBf16 ? 0 : 4 * prepared_words(p));
  at.q = take(p.qk == QkType::kFp8 ? p.batch * p.heads * p.seq * kFp8Row : 0);
  at.k = take(p.qk == QkType::kFp8 ? p.batch * p.kv_heads * p.kv_seq * kFp8Row : 0);
  at.v = take(p.pv == PvType::kFp8 ? values : p.pv == PvType::kFp4 ? values / 2 : 0);
  at.v_scales = take(p.pv == PvType::kFp4 ? values / kGroup : 0);
  at.bytes = end;
  return at;
}
/// Needs no tactic: one workspace serves all tactics of a problem, one launch at a time.
constexpr std::size_t workspace_bytes(const AttentionProblem& problem) {
  return prepared_layout(problem).bytes;
}

constexpr Kind kind_of(const AttentionProblem& p) {
  return {static_cast<int>(p.dim), p.qk, p.pv};
}

/// Query tiles of a problem in the order in which they are taken: groups of heads; of a group the last queries, whose
/// causal rows are the longest, first.
struct Walk {
  int q_tiles = 0;  // of the longest sequence
  int heads = 0;    // batch * heads
  int group = 1;    // heads walked together

  struct Place {
    int q_tile, head;
  };
  PINCH_HD constexpr int tiles() const { return q_tiles * heads; }
  PINCH_HD constexpr Place place(int index) const {
    const int of_group = group * q_tiles, g = index / of_group, first = g * group, inside = index - g * of_group;
    const int left = heads - first, width = left < group ? left : group;
    return {q_tiles - 1 - inside / width, first + inside % width};
  }
};

/// Of a legal tactic. Heads that are walked together should be few, for the L2, yet give every SM a tile; of a causal
/// problem, whose tiles differ in length, several, and the last group as many as the others, since its shortest tiles
/// are what evens out the end (H200, 4 x 16 heads of 128, 4096 keys: 5 heads 681, 15 664, 64 614 TFLOP/s; causal 16
/// heads 630, 15, whose last group is 4, 599).
inline Walk make_walk(const Tactic& tactic, const AttentionProblem& p, const DeviceFacts& device) {
  const std::int64_t heads = p.batch * p.heads, q_tiles = (p.seq + tactic.tile.tile_q - 1) / tactic.tile.tile_q;
  std::int64_t group = tactic.heads;
  if (group == 0) {
    const std::int64_t tiles = (p.causal ? 4 : 1) * device.sm_count;
    group = (tiles + q_tiles - 1) / q_tiles;
    if (p.causal) {
      const std::int64_t kv_bytes = p.kv_seq * p.dim * (qk_bytes(p.qk) + pv_bytes(p.pv)) * p.kv_heads / p.heads;
      group = std::max(group, static_cast<std::int64_t>(device.l2_bytes / 4) / std::max<std::int64_t>(kv_bytes, 1));
    }
    const std::int64_t groups = std::max<std::int64_t>(1, heads / group);
    group = (heads + groups - 1) / groups;
  }
  return {static_cast<int>(q_tiles), static_cast<int>(heads),
          static_cast<int>(std::clamp<std::int64_t>(group, 1, heads))};
}

/// Why a tactic cannot run a problem on a device; empty if it can. Each text is the rule's name in sweeps.
inline std::string_view illegal(const Tactic& tactic, const AttentionProblem& p, const DeviceFacts& device) {
  if (const auto why = illegal(kind_of(p), tactic); !why.empty()) return why;
  if (device.sm_count < 1) return "the device has no SMs";
  const std::int64_t tiles = (p.seq + tactic.tile.tile_q - 1) / tactic.tile.tile_q * p.batch * p.heads;
  if (tiles > (1 << 30)) return "seq, batch and heads give more than 2^30 query tiles";
  return {};
}

}  // namespace pinch::attention::sm90
