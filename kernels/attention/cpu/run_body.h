// The driver's loops, with marks that say what each thread does (pinch/trace.h). run.cc compiles them at level 0, where
// the marks are nothing; traced/ compiles them again with the marks on.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/arguments.h"
#include "kernels/attention/cpu/pack.h"
#include "kernels/attention/cpu/run.h"
#include "kernels/attention/traced/names.h"
#include "pinch/trace.h"

namespace pinch::attention {
namespace {  // a copy for each file that compiles it

constexpr std::int64_t kLine = 64;
constexpr float kLog2E = 1.44269504F, kLn2 = 0.693147181F;

std::size_t lines(std::int64_t bytes) {
  return static_cast<std::size_t>(round_up(bytes, kLine));
}

/// Hands out parts of one allocation.
class Arena {
 public:
  explicit Arena(std::byte* at) : at_(at) {}
  template <class T>
  T* take(std::int64_t count) {
    auto* part = reinterpret_cast<T*>(at_);
    at_ += lines(count * static_cast<std::int64_t>(sizeof(T)));
    return part;
  }

 private:
  std::byte* at_;
};

/// Keys and values of one (batch, kv head), packed. T: float, or Bf16 whose pairs lie side by side.
template <class T>
struct Pack {
  T* keys;    // [padded / columns][dim or dim / 2 pairs][columns]
  T* values;  // [dim / columns][padded or padded / 2 pairs][columns]
  float key_scale = 1;
  float value_factor = 1;  // as pack_values takes it
  float value_scale = 1;   // of the product
};

/// One worker's query tile.
template <class T>
struct Tile {
  T* q;          // [rows][dim]
  float* s;      // [rows][tile_kv]
  T* p;          // [rows][tile_kv]
  float* o;      // [rows][dim]
  float* m;      // [rows] running maximum, log2 units
  float* l;      // [rows] running sum
  float* decay;  // [rows] of this key tile: what earlier sums are multiplied by
};

/// One call in one element type.
template <class T>
class Run {
 public:
  Run(const RunLayout& layout, const AttentionProblem& problem, const AttentionInputs& in, const AttentionOutputs& out,
      std::byte* workspace)
      : layout_(layout),
        kernels_(layout.kernels),
        problem_(problem),
        in_(in),
        out_(out),
        workspace_(workspace),
        variable_(!in.cu_seqlens_q.empty()) {}

  void operator()() {
    const std::int64_t pairs = problem_.batch * problem_.kv_heads;
#pragma omp parallel num_threads(layout_.workers)
    {
      PINCH_TRACE_SCOPE();
      if (kernels_.begin != nullptr) kernels_.begin();
      const auto worker = static_cast<std::size_t>(omp_get_thread_num());
      const Tile<T> tile = tile_at(layout_.packs * layout_.pack_bytes + worker * layout_.tile_bytes);
      if (layout_.tactic.split == AttentionSplit::kHeads) {
#pragma omp for schedule(dynamic, 1) nowait
        for (std::int64_t i = 0; i < pairs; ++i) whole_pair(i, pack_at(worker), tile);
        PINCH_TRACE_STEP(TraceRole::kJoin, 0);
        PINCH_TRACE_WAIT(TraceWait::kOthers);
#pragma omp barrier
      } else {
        for (std::int64_t i = 0; i < pairs; ++i) shared_pair(i, tile);
      }
      if (kernels_.end != nullptr) kernels_.end();
    }
  }

 private:
  struct Pair {
    std::int64_t batch, kv_head;
    detail::Sequence sequence;
    Rows k, v;
  };
  [[nodiscard]] Pair pair_at(std::int64_t index) const {
    const std::int64_t b = index / problem_.kv_heads, kv_head = index % problem_.kv_heads;
    const detail::Sequence s = detail::sequence_of(problem_, in_, b);
    return {b,
            kv_head,
            s,
            {in_.k.data + detail::offset_of(in_.k, variable_, b, kv_head, s.kv_row), s.kv_seq, in_.k.row_stride},
            {in_.v.data + detail::offset_of(in_.v, variable_, b, kv_head, s.kv_row), s.kv_seq, in_.v.row_stride}};
  }
  [[nodiscard]] std::int64_t group() const {
    return problem_.heads / problem_.kv_heads;
  }
  [[nodiscard]] std::int64_t tiles_of(const Pair& pair) const {
    return ceil_div(pair.sequence.seq, layout_.tactic.tile_q);
  }

  [[nodiscard]] Pack<T> pack_at(std::size_t index) const {
    Arena arena(workspace_ + index * layout_.pack_bytes);
    T* keys = arena.take<T>(layout_.padded_kv * problem_.dim);
    return {keys, arena.take<T>(layout_.padded_kv * problem_.dim)};
  }
  [[nodiscard]] Tile<T> tile_at(std::size_t offset) const {
    Arena arena(workspace_ + offset);
    const std::int64_t rows = layout_.rows, keys = layout_.tactic.tile_kv;
    Tile<T> tile;
    tile.q = arena.take<T>(rows * problem_.dim);
    tile.s = arena.take<float>(rows * keys);
    tile.p = arena.take<T>(rows * keys);
    tile.o = arena.take<float>(rows * problem_.dim);
    tile.m = arena.take<float>(rows);
    tile.l = arena.take<float>(rows);
    tile.decay = arena.take<float>(rows);
    return tile;
  }

  void whole_pair(std::int64_t index, Pack<T> pack, const Tile<T>& tile) const {
    const Pair pair = pair_at(index);
    PINCH_TRACE_STEP(TraceRole::kPack, index);
    set_scales(pair, pack);
    for (std::int64_t block = 0; block < pack_blocks(pair); ++block) pack_block(pair, block, pack);
    const std::int64_t tiles = tiles_of(pair);
    for (std::int64_t t = 0; t < group() * tiles; ++t) query_tile(pair, t / tiles, t % tiles, pack, tile);
  }

  void shared_pair(std::int64_t index, const Tile<T>& tile) const {
    const Pair pair = pair_at(index);
    Pack<T> pack = pack_at(0);
    PINCH_TRACE_STEP(TraceRole::kPack, index);
    set_scales(pair, pack);  // by every worker: the same values
#pragma omp for schedule(static) nowait
    for (std::int64_t block = 0; block < pack_blocks(pair); ++block) pack_block(pair, block, pack);
    {
      PINCH_TRACE_WAIT(TraceWait::kPacked);
#pragma omp barrier
    }
    const std::int64_t tiles = tiles_of(pair), items = group() * tiles;
    // Later tiles of a causal problem are longer: they go first. The barrier at the end frees the pack.
#pragma omp for schedule(dynamic, 1) nowait
    for (std::int64_t t = 0; t < items; ++t) {
      query_tile(pair, t % group(), tiles - 1 - t / group(), pack, tile);
    }
    PINCH_TRACE_STEP(TraceRole::kJoin, index);
    PINCH_TRACE_WAIT(TraceWait::kOthers);
#pragma omp barrier
  }

  void set_scales(const Pair& pair, Pack<T>& pack) const {
    if (problem_.qk == QkType::kFp8) pack.key_scale = fp8_scale(amax_of(pair.k, problem_.dim));
    if (problem_.pv == PvType::kFp8) {
      pack.value_factor = pack.value_scale = fp8_scale(amax_of(pair.v, problem_.dim));
    } else if (problem_.pv == PvType::kFp4) {
      const float amax = amax_of(pair.v, problem_.dim);
      pack.value_factor = fp4_v_global(amax);
      pack.value_scale = std::isfinite(amax) ? 1.0F / pack.value_factor : amax - amax;  // else a NaN for every output
    }
  }

  // A block is a panel of keys and the same rows of values; both are whole groups of 16.
  [[nodiscard]] std::int64_t pack_blocks(const Pair& pair) const {
    return round_up(pair.k.count, layout_.tactic.tile_kv) / kernels_.columns;
  }
  void pack_block(const Pair& pair, std::int64_t block, const Pack<T>& pack) const {
    const std::int64_t first = block * kernels_.columns, dim = problem_.dim;
    PINCH_TRACE_PHASE(TracePhase::kKeys);
    pack_keys(pair.k, first, kernels_.columns, dim, problem_.qk, pack.key_scale, pack.keys + first * dim);
    PINCH_TRACE_PHASE(TracePhase::kValues);
    for (std::int64_t row = first; row < first + kernels_.columns; row += kGroup) {
      pack_values(pair.v, row, kernels_.columns, dim, layout_.padded_kv, problem_.pv, pack.value_factor, pack.values);
    }
  }

  void query_tile(const Pair& pair, std::int64_t head_of_group, std::int64_t index, const Pack<T>& pack,
                  const Tile<T>& tile) const {
    PINCH_TRACE_STEP(TraceRole::kQueries, index);
    const std::int64_t head = pair.kv_head * group() + head_of_group, dim = problem_.dim;
    const std::int64_t first = index * layout_.tactic.tile_q;
    const std::int64_t rows = std::min<std::int64_t>(layout_.tactic.tile_q, pair.sequence.seq - first);
    const Rows queries{in_.q.data + detail::offset_of(in_.q, variable_, pair.batch, head, pair.sequence.q_row),
                       pair.sequence.seq, in_.q.row_stride};
    const float query_scale = problem_.qk == QkType::kFp8 ? fp8_scale(amax_of(queries, dim)) : 1.0F;
    for (std::int64_t r = 0; r < rows; ++r) {
      pack_row(queries.row(first + r), dim, problem_.qk, query_scale, tile.q + r * dim);
    }
    // What pads the last block is multiplied too and never stored.
    const std::int64_t padded = round_up(rows, kernels_.rows);
    std::fill(tile.q + rows * dim, tile.q + padded * dim, T{});
    std::fill(tile.p + rows * layout_.tactic.tile_kv, tile.p + padded * layout_.tactic.tile_kv, T{});
    std::fill(tile.decay, tile.decay + padded, 1.0F);
    std::fill(tile.m, tile.m + padded, -std::numeric_limits<float>::infinity());
    std::fill(tile.l, tile.l + padded, 0.0F);

    const float scale = in_.scale * kLog2E * query_scale * pack.key_scale;
    const auto visible = [&](std::int64_t r) {
      return visible_keys(problem_.causal, first + r, pair.sequence.seq, pair.sequence.kv_seq);
    };
    const std::int64_t last = visible(rows - 1);
    for (std::int64_t key = 0; key < last; key += layout_.tactic.tile_kv) {
      key_tile(key, rows, scale, visible, pack, tile);
    }
    store(pair, head, first, rows, pack, tile);
  }

  /// One tile of keys under one of queries. Blocks of rows skip what none of their rows sees.
  template <class Visible>
  void key_tile(std::int64_t key, std::int64_t rows, float scale, const Visible& visible, const Pack<T>& pack,
                const Tile<T>& tile) const {
    const int keys = layout_.tactic.tile_kv, height = kernels_.rows, columns = kernels_.columns;
    const std::int64_t dim = problem_.dim;
    const auto seen_by = [&](std::int64_t r) {
      return static_cast<int>(std::clamp<std::int64_t>(visible(r) - key, 0, keys));
    };
    const auto seen_by_block = [&](std::int64_t block) { return seen_by(std::min(block + height, rows) - 1); };

    PINCH_TRACE_STEP(TraceRole::kScores, key / keys);
    for (int column = 0; column < keys; column += columns) {
      const T* panel = pack.keys + (key + column) * dim;
      for (std::int64_t block = 0; block < rows; block += height) {
        if (seen_by_block(block) <= column) continue;
        kernels_.multiply(tile.q + block * dim, dim, panel, dim, nullptr, tile.s + block * keys + column, keys);
      }
    }
    PINCH_TRACE_STEP(TraceRole::kSoftmax, key / keys);
    const int step = std::max(kStep, kernels_.k_step);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t block = r / height * height;
      const int count = static_cast<int>(round_up(seen_by_block(block), step));
      if (count == 0) continue;
      float* s = tile.s + r * keys;
      const float top = kernels_.softmax.scale_max(s, seen_by(r), count, scale);
      const float m = next_max(tile.m[r], top, /*threshold=*/0.0F);
      tile.decay[r] = m == tile.m[r] ? 1.0F : exp2_poly<5>(tile.m[r] - m);
      tile.l[r] = tile.l[r] * tile.decay[r] + kernels_.softmax.probabilities(s, count, m, tile.p + r * keys);
      tile.m[r] = m;
    }
    PINCH_TRACE_STEP(TraceRole::kProduct, key / keys);
    for (std::int64_t column = 0; column < dim; column += columns) {
      const T* panel = pack.values + column * layout_.padded_kv + key * columns;
      for (std::int64_t block = 0; block < rows; block += height) {
        const std::int64_t depth = round_up(seen_by_block(block), step);
        if (depth == 0) continue;
        kernels_.multiply(tile.p + block * keys, keys, panel, depth, key == 0 ? nullptr : tile.decay + block,
                          tile.o + block * dim + column, dim);
      }
    }
  }

  void store(const Pair& pair, std::int64_t head, std::int64_t first, std::int64_t rows, const Pack<T>& pack,
             const Tile<T>& tile) const {
    PINCH_TRACE_STEP(TraceRole::kStore, first / layout_.tactic.tile_q);
    const float unit = pack.value_scale * (problem_.pv == PvType::kBf16  ? 1.0F
                                           : problem_.pv == PvType::kFp8 ? 0x1p-8F
                                                                         : 1.0F / (kE4m3Max * kE2m1Max));
    const std::int64_t offset = detail::offset_of(out_.o, variable_, pair.batch, head, pair.sequence.q_row);
    float* lse = out_.lse == nullptr ? nullptr
                                     : out_.lse + head * out_.lse_head_stride + first +
                                           (variable_ ? pair.sequence.q_row : pair.batch * out_.lse_batch_stride);
    for (std::int64_t r = 0; r < rows; ++r) {
      const bool none = tile.l[r] == 0.0F;  // no key, or every score minus infinity
      const float factor = none ? 0.0F : unit / tile.l[r];
      const std::int64_t at = offset + (first + r) * out_.o.row_stride;
      const float* o = tile.o + r * problem_.dim;
      const auto value = [&](std::int64_t c) { return none ? 0.0F : o[c] * factor; };
      if (problem_.output == OutputType::kF32) {
        float* to = static_cast<float*>(out_.o.data) + at;
        for (std::int64_t c = 0; c < problem_.dim; ++c) to[c] = value(c);
      } else {
        Bf16* to = static_cast<Bf16*>(out_.o.data) + at;
        for (std::int64_t c = 0; c < problem_.dim; ++c) to[c] = to_bf16(value(c));
      }
      if (lse != nullptr)
        lse[r] = none ? -std::numeric_limits<float>::infinity() : (tile.m[r] + std::log2(tile.l[r])) * kLn2;
    }
  }

  const RunLayout& layout_;
  const Kernels& kernels_;
  const AttentionProblem& problem_;
  const AttentionInputs& in_;
  const AttentionOutputs& out_;
  std::byte* workspace_;
  bool variable_;
};

void run_call(const RunLayout& layout, const AttentionProblem& problem, const AttentionInputs& in,
              const AttentionOutputs& out, std::byte* workspace) {
  if (layout.kernels.element == Element::kF32) {
    Run<float>(layout, problem, in, out, workspace)();
  } else {
    Run<Bf16>(layout, problem, in, out, workspace)();
  }
}

}  // namespace
}  // namespace pinch::attention
