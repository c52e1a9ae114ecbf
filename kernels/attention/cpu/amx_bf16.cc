// AMX BF16: 2 x 2 tiles, 32 rows x 32 columns, 32 deep at a time, on the layouts of avx512_bf16. Row-major rows of bf16
// and panels of pairs are tiles as they lie in memory.
#include <immintrin.h>

#include "kernels/attention/cpu/avx512_softmax.h"
#include "kernels/common/cpu/amx_tiles.h"

namespace pinch::attention {
namespace {

constexpr KernelShape kShape = shape_of(CpuIsa::kAmxBf16);
constexpr int kTileRows = 16;

PINCH_AMX_BF16 void begin() {
  _tile_loadconfig(&detail::kFullTiles);
}
PINCH_AMX_BF16 void end() {
  _tile_release();
}

PINCH_AMX_BF16 void multiply(const void* a, std::int64_t lda, const void* panel, std::int64_t k, const float* decay,
                             float* c, std::int64_t ldc) {
  const auto* rows = static_cast<const Bf16*>(a);
  const auto* b = static_cast<const std::uint32_t*>(panel);
  const auto a_stride = static_cast<std::size_t>(lda) * sizeof(Bf16), c_stride = static_cast<std::size_t>(ldc) * 4;
  constexpr std::size_t kPanelStride = kShape.columns * 4;
  float* lower = c + kTileRows * ldc;
  if (decay != nullptr) {
    for (int r = 0; r < kShape.rows; ++r) {
      if (decay[r] == 1.0F) continue;  // the maximum of most rows stands still in most tiles
      const __m512 d = _mm512_set1_ps(decay[r]);
      float* row = c + r * ldc;
      _mm512_storeu_ps(row, _mm512_mul_ps(_mm512_loadu_ps(row), d));
      _mm512_storeu_ps(row + 16, _mm512_mul_ps(_mm512_loadu_ps(row + 16), d));
    }
    _tile_loadd(0, c, c_stride);
    _tile_loadd(1, c + 16, c_stride);
    _tile_loadd(2, lower, c_stride);
    _tile_loadd(3, lower + 16, c_stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t p = 0; p < k; p += kShape.k_step, b += kShape.k_step / 2 * kShape.columns) {
    _tile_loadd(4, rows + p, a_stride);
    _tile_loadd(6, b, kPanelStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 16, kPanelStride);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, rows + kTileRows * lda + p, a_stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_stride);
  _tile_stored(1, c + 16, c_stride);
  _tile_stored(2, lower, c_stride);
  _tile_stored(3, lower + 16, c_stride);
}

}  // namespace

Kernels amx_bf16_kernels(const PForm& form) {
  return {kShape.element, kShape.rows, kShape.columns, kShape.k_step, multiply, avx512_pair_softmax(form), begin, end};
}

}  // namespace pinch::attention
