// Tactics of the wgmma kernel: what is compiled (WgmmaTile) and what is chosen at launch (WgmmaTactic).
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace pinch::gemm_bf16_fp4::sm90 {

// One compiled kernel. n runs over output channels (rows of the weights), m over rows of the activations.
struct WgmmaTile {
  int tile_n = 128;   // 128, 192 or 256
  int tile_m = 128;   // width of one wgmma: 8 or a multiple of 16 up to 256
  int tile_k = 64;    // 64 or 128: columns a stage
  int stages = 4;     // depth of the shared-memory ring
  int consumers = 2;  // warpgroups that decode and multiply: 2, 3 (tile_n 192) or 4
  int cluster_n = 1;  // CTAs along n that share one activation tile by multicast: 1, 2 or 4
  int cluster_k = 1;  // CTAs that split one tile's k and add up through distributed shared memory: 1, 2, 4 or 8
  int group = 2;      // k16 steps that are decoded and issued together: 2, or 4 with tile_k 128

  bool operator==(const WgmmaTile&) const = default;
};

// A full set of launch knobs.
struct WgmmaTactic {
  WgmmaTile tile;
  int split_k = 1;   // 0: stream-k (tiles left over after whole waves are cut evenly), 1: none, s: s parts a tile
  int raster_m = 8;  // m tiles that are walked before n advances

  bool operator==(const WgmmaTactic&) const = default;
};

inline constexpr int kStreamK = 0;
inline constexpr int kMaxSharedBytes = 227 * 1024;

// Columns of the output tile that one CTA finishes, and how many of them the epilogue stages at once.
constexpr int own_columns(const WgmmaTile& tile) {
  return tile.tile_m / tile.cluster_k;
}
constexpr int staged_columns(const WgmmaTile& tile) {
  const int own = own_columns(tile);
  if (own % 64 == 0 && tile.consumers == 2 && tile.cluster_k == 1)
    return 64;  // the others have no room for more than 32
  return own % 32 == 0 ? 32 : own % 16 == 0 ? 16 : 8;
}

// Shared memory of one CTA. scale_tile_bytes: 256 for NVFP4, 128 for MXFP4.
constexpr int shared_bytes(const WgmmaTile& tile, int scale_tile_bytes) {
  const int slabs = tile.tile_k / 64;
  const int row_tiles = tile.tile_n / 64;
  const int activations = tile.stages * slabs * tile.tile_m * 128;
  const int staging = tile.consumers * 2 * staged_columns(tile) * 128;
  const int weights = tile.stages * slabs * row_tiles * (2048 + scale_tile_bytes);
  const int received = (tile.cluster_k - 1) * tile.tile_n * own_columns(tile) * 4;  // partial sums of the other CTAs
  const int barriers = (2 * tile.stages + 1) * 8;
  return (activations + staging + weights + received + barriers + 1023) / 1024 * 1024;
}

// Why a tile cannot be compiled; empty if it can. Larger scale tiles (NVFP4) decide.
constexpr std::string_view illegal(const WgmmaTile& tile) {
  if (tile.tile_n != 128 && tile.tile_n != 192 && tile.tile_n != 256) return "tile_n must be 128, 192 or 256";
  if (tile.tile_m != 8 && (tile.tile_m < 16 || tile.tile_m > 256 || tile.tile_m % 16 != 0))
    return "tile_m must be 8 or a multiple of 16 up to 256";
  if (tile.consumers < 2 || tile.consumers > 4) return "consumers must be 2, 3 or 4";
  if (tile.tile_n % (64 * tile.consumers) != 0) return "tile_n must give each consumer the same number of 64 rows";
  if (tile.consumers > 2 && tile.tile_m > 128)
    return "accumulators of tile_m above 128 exceed the registers of three or four consumers";
  if (tile.tile_n == 256 && tile.tile_m > 128)
    return "accumulators of tile_n 256 x tile_m above 128 exceed the registers";
  if (tile.tile_k != 64 && tile.tile_k != 128) return "tile_k must be 64 or 128";
  if (tile.cluster_n != 1 && tile.cluster_n != 2 && tile.cluster_n != 4) return "cluster_n must be 1, 2 or 4";
  if (tile.tile_m % (8 * tile.cluster_n) != 0) return "tile_m must be a multiple of 8 x cluster_n";
  if (tile.group != 2 && (tile.group != 4 || tile.tile_k != 128)) return "group must be 2, or 4 with tile_k 128";
  if (tile.cluster_k != 1 && tile.cluster_k != 2 && tile.cluster_k != 4 && tile.cluster_k != 8)
    return "cluster_k must be 1, 2, 4 or 8";
  if (tile.cluster_k > 1 && tile.cluster_n > 1) return "cluster_n and cluster_k exclude each other";
  if (tile.tile_m % (8 * tile.cluster_k) != 0) return "tile_m must be a multiple of 8 x cluster_k";
  if (tile.stages < 3 || tile.stages > 16) return "stages must be 3 to 16";
  if (shared_bytes(tile, 256) > kMaxSharedBytes) return "stages exceed the shared memory";
  return {};
}

constexpr std::string_view illegal(const WgmmaTactic& tactic) {
  if (const auto why = illegal(tactic.tile); !why.empty()) return why;
  if (tactic.tile.cluster_k > 1 && tactic.split_k != 1) return "split_k must be 1 with cluster_k";
  if (tactic.split_k < 0 || tactic.split_k > 32) return "split_k must be 0 (stream-k) to 32";
  if (tactic.raster_m < 1) return "raster_m must be at least 1";
  return {};
}

// For example "wgmma/n128/m256/k64/stages5/consumers2/cluster2x1/group2/split1/raster8".
inline std::string to_string(const WgmmaTactic& tactic) {
  const WgmmaTile& tile = tactic.tile;
  return "wgmma/n" + std::to_string(tile.tile_n) + "/m" + std::to_string(tile.tile_m) + "/k" +
         std::to_string(tile.tile_k) + "/stages" + std::to_string(tile.stages) + "/consumers" +
         std::to_string(tile.consumers) + "/cluster" + std::to_string(tile.cluster_n) + "x" +
         std::to_string(tile.cluster_k) + "/group" + std::to_string(tile.group) + "/split" +
         (tactic.split_k == kStreamK ? std::string("_stream") : std::to_string(tactic.split_k)) + "/raster" +
         std::to_string(tactic.raster_m);
}

// Inverse of to_string; nothing for any other text.
inline std::optional<WgmmaTactic> parse_wgmma_tactic(const std::string& text) {
  WgmmaTactic tactic;
  WgmmaTile& tile = tactic.tile;
  char split[16] = "";
  if (std::sscanf(text.c_str(), "wgmma/n%d/m%d/k%d/stages%d/consumers%d/cluster%dx%d/group%d/split%15[^/]/raster%d",
                  &tile.tile_n, &tile.tile_m, &tile.tile_k, &tile.stages, &tile.consumers, &tile.cluster_n,
                  &tile.cluster_k, &tile.group, split, &tactic.raster_m) != 10)
    return std::nullopt;
  if (std::string_view(split) == "_stream") {
    tactic.split_k = kStreamK;
  } else if (std::sscanf(split, "%d", &tactic.split_k) != 1) {
    return std::nullopt;
  }
  return to_string(tactic) == text ? std::optional(tactic) : std::nullopt;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
