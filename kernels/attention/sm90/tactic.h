// Tactics of the sm_90a attention kernel: what is compiled (Kind and Tile) and what is chosen at launch (Tactic).
//
// The handoff. Softmax turns a tile of scores into P, `chunks` pieces of it in turn; the product P.V of the tile is
// issued in two parts. After the first `split` of P, softmax releases and the first part is issued; the rest of P is
// computed while that part and the next scores are in the matrix unit, and the second part follows. handoff() derives
// from the knobs what has been written at the release and what the first part reads; illegal() refuses a tile whose
// product reads what has not been written.
#pragma once

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/attention/numerics.h"
#include "pinch/attention_problem.h"

namespace pinch::attention::sm90 {

/// What a kernel is compiled for, of the problem. Causal or not and the output type are arguments.
struct Kind {
  int dim = 128;  // 64 or 128
  QkType qk = QkType::kBf16;
  PvType pv = PvType::kBf16;

  bool operator==(const Kind&) const = default;
};

/// One compiled kernel's knobs.
struct Tile {
  int tile_q = 128;   // queries a CTA: 64 a consumer warpgroup, 128 or 192
  int tile_kv = 128;  // keys a step: a multiple of 16 up to 256; 64 or 128 where V is prepared (fp8, fp4)
  int stages = 2;     // key tiles, and value tiles, in shared memory
  Exp2 exp2 = Exp2::kHardware;
  int sixteenths = 0;  // of every 16 keys by polynomial (kMixed)
  Quant quant = Quant::kLinear;
  int split_numerator = 1;  // of P, before the product's first part is issued; 1 of 1: there is one part
  int split_denominator = 1;
  int chunks = 1;      // pieces that P is written in
  int read_ahead = 0;  // k steps that the first part reads beyond its split: not 0 in demonstrations of the fault only

  bool operator==(const Tile&) const = default;
};

/// Who takes which query tile.
enum class Schedule : std::uint8_t {
  kStatic,   // CTA c: tiles c, c + grid, ...
  kDynamic,  // the next one, by a counter in the workspace
};

/// A full set of launch knobs.
struct Tactic {
  Tile tile;
  int threshold = 0;  // log2 units by which a row's maximum may grow before its sums are rescaled
  Schedule schedule = Schedule::kDynamic;
  int heads = 0;  // whose query tiles are walked together, so that their keys and values stay in L2; 0: as many as fit

  bool operator==(const Tactic&) const = default;
};

inline constexpr int kMaxSharedBytes = 227 * 1024;
inline constexpr int kWarpgroupRows = 64;

constexpr int consumers(const Tile& tile) {
  return tile.tile_q / kWarpgroupRows;
}
/// Keys of one matrix instruction of P.V.
constexpr int step_keys(PvType pv) {
  return pv == PvType::kFp8 ? 32 : 16;
}
constexpr int qk_bytes(QkType qk) {
  return qk == QkType::kFp8 ? 1 : 2;
}
/// Of a row of Q or K in shared memory: e4m3 rows of dim 64 are padded with zeros to 128 bytes.
constexpr int qk_row_bytes(const Kind& kind) {
  return kind.qk == QkType::kFp8 ? 128 : 2 * kind.dim;
}
/// Bytes of a value in shared memory; fp4 is there as codes and, decoded, as bf16.
constexpr int pv_bytes(PvType pv) {
  return pv == PvType::kFp8 ? 1 : 2;
}

/// In k steps of one tile's product.
struct Handoff {
  int steps;    // of the whole product
  int written;  // by softmax at the first release
  int read;     // by the first part of the product
};
constexpr Handoff handoff(const Tile& tile, PvType pv) {
  const int steps = tile.tile_kv / step_keys(pv), n = tile.split_numerator, d = tile.split_denominator;
  return {steps, tile.chunks * n / d * steps / tile.chunks, std::min(steps, (steps * n + d - 1) / d + tile.read_ahead)};
}

/// Registers of a thread that a split fills: scores, P in bf16, O, and the exponents of the second part. Of 240 the
/// rest of the kernel takes some ten: 224 fit (half of 160 keys at dim 128), 236 spill 12 bytes and more.
constexpr int split_registers(const Kind& kind, const Tile& tile) {
  const Handoff h = handoff(tile, kind.pv);
  return tile.tile_kv / 2 + tile.tile_kv / 4 + kind.dim / 2 + (h.steps - h.written) * step_keys(kind.pv) / 2;
}
inline constexpr int kSplitRegisters = 224;

/// Shared memory of one CTA, with so many query tiles in it.
constexpr int shared_bytes(const Kind& kind, const Tile& tile, int q_stages) {
  const int q = q_stages * tile.tile_q * qk_row_bytes(kind);
  const int k = tile.stages * tile.tile_kv * qk_row_bytes(kind);
  const int v = tile.stages * tile.tile_kv * kind.dim * pv_bytes(kind.pv);
  // NVFP4: two buffers of codes and scales as they come from memory.
  const int codes = kind.pv == PvType::kFp4 ? 2 * (tile.tile_kv * kind.dim / 2 + tile.tile_kv * kind.dim / kGroup) : 0;
  return (q + k + v + codes + 1023) / 1024 * 1024 + 1024;
}
/// Two where they fit: the next tile's queries are then there when this one's last scores are issued.
constexpr int q_stages(const Kind& kind, const Tile& tile) {
  return shared_bytes(kind, tile, 2) <= kMaxSharedBytes ? 2 : 1;
}
constexpr int shared_bytes(const Kind& kind, const Tile& tile) {
  return shared_bytes(kind, tile, q_stages(kind, tile));
}

/// Why a tile cannot be compiled for a kind; empty if it can.
constexpr std::string_view illegal(const Kind& kind, const Tile& tile) {
  if (kind.dim != 64 && kind.dim != 128) return "dim must be 64 or 128";
  if (kind.qk == QkType::kFp8 && kind.pv != PvType::kFp8) return "qk: fp8 goes with pv fp8 alone";
  if (tile.tile_q != 128 && tile.tile_q != 192) return "tile_q must be 128 or 192";
  if (kind.pv == PvType::kBf16) {
    if (tile.tile_kv < 32 || tile.tile_kv > 256 || tile.tile_kv % 16 != 0)
      return "tile_kv must be a multiple of 16 from 32 to 256";
  } else if (tile.tile_kv != 128) {
    return "tile_kv must be 128 with pv fp8 or fp4";
  }
  if (tile.tile_q == 192 && tile.tile_kv * 3 / 4 + kind.dim / 2 * (kind.pv == PvType::kFp8 ? 2 : 1) > 136)
    return "three consumer warpgroups leave no registers for this tile_kv";
  if (tile.stages < 2 || tile.stages > 4) return "stages must be 2 to 4";
  if (tile.exp2 == Exp2::kMixed ? tile.sixteenths < 1 || tile.sixteenths > 15 : tile.sixteenths != 0)
    return "sixteenths must be 1 to 15 with exp2 mixed, else 0";
  if (tile.quant == Quant::kLog && kind.pv != PvType::kFp4) return "quant: log is a form of NVFP4";
  if (tile.split_denominator < 1 || tile.split_numerator < 1 || tile.split_numerator > tile.split_denominator)
    return "split must be above 0 and at most 1";
  if (kind.pv == PvType::kFp4 && tile.split_numerator != tile.split_denominator)
    return "split must be 1 with pv fp4: its groups are quantised together";
  if (kind.pv == PvType::kFp8 && kind.dim == 128 && tile.split_numerator != tile.split_denominator)
    return "split must be 1 with pv fp8 at dim 128: a second part spills, and kept in shared memory it is slower";
  const int steps = tile.tile_kv / step_keys(kind.pv);
  if (tile.chunks < 1 || steps % tile.chunks != 0) return "chunks must divide the tile's k steps";
  const Handoff h = handoff(tile, kind.pv);
  if (h.written == 0) return "handoff: the first release comes before anything is written";
  if (h.read > h.written) return "handoff: the product reads what softmax has not written";
  if (kind.pv == PvType::kBf16 && h.written < h.steps && split_registers(kind, tile) > kSplitRegisters)
    return "split must leave less of P to the second part: no registers are left for its exponents";
  if (shared_bytes(kind, tile) > kMaxSharedBytes) return "stages exceed the shared memory";
  return {};
}

constexpr std::string_view illegal(const Kind& kind, const Tactic& tactic) {
  if (const auto why = illegal(kind, tactic.tile); !why.empty()) return why;
  if (tactic.threshold < 0 || static_cast<float>(tactic.threshold) > headroom_log2(kind.pv))
    return "threshold must be at least 0 and within the room that P's type has";
  if (tactic.heads < 0) return "heads must be at least 0";
  return {};
}

/// For example "q128/kv176/stages2/hardware/linear/split1of1/chunks1/threshold8/dynamic/heads0"; mixed exp2 as
/// "mixed4".
inline std::string to_string(const Tactic& tactic) {
  const Tile& tile = tactic.tile;
  std::string text;
  const auto add = [&](const char* name, int value) { (text += name) += std::to_string(value); };
  add("q", tile.tile_q);
  add("/kv", tile.tile_kv);
  add("/stages", tile.stages);
  (text += "/") += attention::to_string(tile.exp2);
  if (tile.exp2 == Exp2::kMixed) add("", tile.sixteenths);
  (text += "/") += attention::to_string(tile.quant);
  add("/split", tile.split_numerator);
  add("of", tile.split_denominator);
  add("/chunks", tile.chunks);
  add("/threshold", tactic.threshold);
  text += tactic.schedule == Schedule::kStatic ? "/static" : "/dynamic";
  add("/heads", tactic.heads);
  return text;
}

}  // namespace pinch::attention::sm90
