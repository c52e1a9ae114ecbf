// Prepared weights: the order in which every CPU kernel reads them.
//
// Strips of 16 output channels, one channel a 32-bit lane, run along k without a gap, so that a thread's channels are
// one contiguous read. A strip is a row of chunks; a chunk is 4 scale groups:
//
//   scales  [4 groups][16 channels] bytes, E4M3 or UE8M0                     64 bytes
//   codes   [4 * group / 8 steps][16 channels] dwords, 8 codes each          64 bytes a step
//
// Dword of a step: code of column 2j at bit 4j, of column 2j + 1 at bit 16 + 4j (j < 4). A shift of the 16-bit words by
// 4j then leaves columns 2j and 2j + 1 side by side in the low nibbles, the pair that one VDPBF16PS lane multiplies.
//
// Padding, to 16 channels and 4 groups, has codes 0 and scale 1. A group of scale 0 is stored as codes 0 and scale 1,
// the same products, so that kernels may rely on scales above 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pinch/fp4.h"
#include "pinch/result.h"

namespace pinch::detail {

inline constexpr int kStrip = 16;       // channels
inline constexpr int kChunkGroups = 4;  // scale groups
inline constexpr int kStepColumns = 8;  // columns of one 64-byte row of codes

constexpr int chunk_columns(Fp4Format format) {
  return kChunkGroups * static_cast<int>(group_size(format));
}
constexpr int chunk_bytes(Fp4Format format) {
  return kChunkGroups * kStrip + chunk_columns(format) / kStepColumns * kStrip * 4;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

struct FreeDeleter {
  void operator()(std::uint8_t* bytes) const { std::free(bytes); }
};

struct PackedWeights {
  Fp4Format format = Fp4Format::kNvfp4;
  std::int64_t n = 0;
  std::int64_t k = 0;
  float alpha = 1.0F;
  std::int64_t chunks = 0;  // of one strip
  std::size_t bytes = 0;
  std::unique_ptr<std::uint8_t[], FreeDeleter> data;

  [[nodiscard]] std::int64_t padded_k() const { return chunks * chunk_columns(format); }
  [[nodiscard]] std::int64_t strip_bytes() const { return chunks * chunk_bytes(format); }
  [[nodiscard]] const std::uint8_t* strip(std::int64_t index) const { return data.get() + index * strip_bytes(); }
};

/// Errors: what validate(view) refuses; kOutOfMemory.
Result<std::shared_ptr<const PackedWeights>> pack_weights(const Fp4View& view);

}  // namespace pinch::detail
