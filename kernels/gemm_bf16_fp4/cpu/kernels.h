// What one instruction set provides. The driver (run.cc) is the same for all of them.
//
// Shapes, with M = tile_m, N = tile_n of the tactic and kp = padded k:
//   packed activations   one block a row tile. fp32: [kp][M] float. bf16 pairs: [kp / 2][M] pairs, column 2p low.
//                        amx: [kp / 32][M][32] bf16. Missing rows and columns are 0.
//   panel                fp32: [k][N] float.  bf16 pairs and amx: [k / 2][N] pairs. Weight times scale, exact.
//   sums                 [M][N] float, before alpha.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gemm_bf16_fp4/tactic.h"
#include "pinch/formats.h"

namespace pinch::detail {

/// How a kernel wants its activations.
enum class Activations : std::uint8_t { kF32, kBf16Pairs, kBf16Tiles };

constexpr Activations activations_of(CpuIsa isa) {
  return isa == CpuIsa::kAmxBf16      ? Activations::kBf16Tiles
         : isa == CpuIsa::kAvx512Bf16 ? Activations::kBf16Pairs
                                      : Activations::kF32;
}
constexpr std::int64_t element_bytes(Activations kind) {
  return kind == Activations::kF32 ? 4 : 2;
}

/// Streaming tiles of at most this many rows wait for weights more than for arithmetic and fetch them ahead. Strips
/// follow one another, so what lies ahead is wanted even across a strip's end; beyond the last one a prefetch does
/// nothing.
inline constexpr int kReadBound = 4;
[[gnu::always_inline]] inline void prefetch(const std::uint8_t* codes) {
  constexpr int kAheadBytes = 4096;
  __builtin_prefetch(codes + kAheadBytes);
}

/// Some chunks of tile_n / 16 strips.
struct StripSpan {
  const std::uint8_t* weights;  // first chunk of the first strip
  std::int64_t strip_bytes;     // to the next strip
  std::int64_t chunks;
  int strips;  // that exist; kernels treat the rest of tile_n as zeros or skip it
  Fp4Format format;
};

/// Packs `rows` x k bf16 to one block.
using PackKernel = void (*)(const Bf16* a, std::int64_t lda, int rows, int tile_m, std::int64_t k,
                            std::int64_t padded_k, void* packed);
/// sums = activations times the strips. Strips beyond `strips` are not written.
using StreamKernel = void (*)(const StripSpan& strips, const void* packed, float* sums);
/// Decodes the strips into a panel; those beyond `strips` become zeros.
using DecodeKernel = void (*)(const StripSpan& strips, int tile_n, void* panel);
/// sums (+)= activations times panel over k columns.
using PanelKernel = void (*)(const void* packed, const void* panel, std::int64_t k, bool accumulate, float* sums);
/// out = round(sums * alpha) for rows x columns of a tile.
using StoreKernel = void (*)(const float* sums, int tile_n, int rows, int columns, float alpha, OutputType type,
                             void* out, std::int64_t ldo);

struct KernelSet {
  PackKernel pack = nullptr;
  DecodeKernel decode = nullptr;
  StoreKernel store = nullptr;
  StreamKernel stream = nullptr;  // on the streaming path
  PanelKernel panel = nullptr;    // on the panel path
};

/// The kernels of a tactic; members of the other path are null. All null where this build has none.
KernelSet find_kernels(const CpuTactic& tactic);

// One an instruction set, in its own file.
KernelSet scalar_kernels(GemmPath path, int tile_m, int tile_n);
KernelSet avx2_kernels(GemmPath path, int tile_m, int tile_n);
KernelSet avx512_kernels(GemmPath path, int tile_m, int tile_n);
KernelSet avx512_bf16_kernels(GemmPath path, int tile_m, int tile_n);
KernelSet amx_bf16_kernels(GemmPath path, int tile_m, int tile_n);

/// An inner kernel by its tile; the tables of these are what an instruction set provides.
struct StreamEntry {
  int tile_m, tile_n;
  StreamKernel kernel;
};
struct PanelEntry {
  int tile_m, tile_n;
  PanelKernel kernel;
};

/// `common` completed with the entry of this tile; all null where there is none.
inline KernelSet select_kernels(KernelSet common, std::span<const StreamEntry> streams,
                                std::span<const PanelEntry> panels, GemmPath path, int tile_m, int tile_n) {
  const auto fits = [&](const auto& entry) { return entry.tile_m == tile_m && entry.tile_n == tile_n; };
  if (path == GemmPath::kStream) {
    const auto found = std::find_if(streams.begin(), streams.end(), fits);
    if (found == streams.end()) return {};
    common.stream = found->kernel;
  } else {
    const auto found = std::find_if(panels.begin(), panels.end(), fits);
    if (found == panels.end()) return {};
    common.panel = found->kernel;
  }
  return common;
}

}  // namespace pinch::detail
