// The tile configuration of the AMX kernels.
#pragma once

#include <cstdint>

namespace pinch::detail {

/// What _tile_loadconfig reads: palette 1 with every tile at its full 16 rows x 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

/// Static, because gcc's _tile_loadconfig tells the compiler of its first 8 bytes only, and stores to a local would go.
inline constexpr TileConfig kFullTiles;

}  // namespace pinch::detail
