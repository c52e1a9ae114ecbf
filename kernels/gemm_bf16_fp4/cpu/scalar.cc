// The portable path: plain loops, written so that a compiler can vectorise them for whatever it targets. Multiplies and
// adds round separately, as -ffp-contract=off has it.
#include <array>
#include <cstring>

#include "kernels/gemm_bf16_fp4/cpu/kernels.h"
#include "kernels/gemm_bf16_fp4/cpu/pack.h"
#include "kernels/gemm_bf16_fp4/cpu/store.h"
#include "kernels/gemm_bf16_fp4/packed.h"

namespace pinch::detail {
namespace {

constexpr std::array<float, 16> kE2m1 = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                         -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

float scale_value(std::uint8_t bits, Fp4Format format) {
  return format == Fp4Format::kNvfp4 ? to_f32(E4m3{bits}) : to_f32(Ue8m0{bits});
}

// Bit position of column c of a step inside its dword.
constexpr int code_shift(int c) {
  return 16 * (c % 2) + 4 * (c / 2);
}

void pack(const Bf16* a, std::int64_t lda, int rows, int tile_m, std::int64_t k, std::int64_t padded_k, void* packed) {
  pack_f32(a, lda, rows, tile_m, k, padded_k, packed);
}

// One column of a group: its 16 weights, by lane, without the scale.
void decode_column(const std::uint8_t* step, int shift, float* weights) {
  for (int lane = 0; lane < kStrip; ++lane) {
    std::uint32_t dword = 0;
    std::memcpy(&dword, step + 4 * lane, 4);
    weights[lane] = kE2m1[(dword >> shift) & 15U];
  }
}

template <int kTileM>
void stream(const StripSpan& strips, const void* packed, float* sums) {
  const int group = static_cast<int>(group_size(strips.format));
  const auto* a = static_cast<const float*>(packed);
  const std::uint8_t* chunk = strips.weights;
  float sum[kTileM][kStrip] = {};
  for (std::int64_t c = 0; c < strips.chunks; ++c, chunk += chunk_bytes(strips.format)) {
    const std::uint8_t* step = chunk + kChunkGroups * kStrip;
    for (int g = 0; g < kChunkGroups; ++g) {
      float partial[kTileM][kStrip] = {};
      for (int column = 0; column < group; ++column, a += kTileM) {
        float weights[kStrip];
        decode_column(step + column / kStepColumns * kStrip * 4, code_shift(column % kStepColumns), weights);
        for (int r = 0; r < kTileM; ++r) {
          for (int lane = 0; lane < kStrip; ++lane) partial[r][lane] += a[r] * weights[lane];
        }
      }
      step += group / kStepColumns * kStrip * 4;
      for (int lane = 0; lane < kStrip; ++lane) {
        const float scale = scale_value(chunk[g * kStrip + lane], strips.format);
        for (int r = 0; r < kTileM; ++r) sum[r][lane] += partial[r][lane] * scale;
      }
    }
  }
  std::memcpy(sums, sum, sizeof(sum));
}

// tile_n is one strip here.
void decode(const StripSpan& strips, int /*tile_n*/, void* panel) {
  const int group = static_cast<int>(group_size(strips.format));
  auto* out = static_cast<float*>(panel);
  const std::uint8_t* chunk = strips.weights;
  for (std::int64_t c = 0; c < strips.chunks; ++c, chunk += chunk_bytes(strips.format)) {
    const std::uint8_t* steps = chunk + kChunkGroups * kStrip;
    for (int column = 0; column < kChunkGroups * group; ++column, out += kStrip) {
      decode_column(steps + column / kStepColumns * kStrip * 4, code_shift(column % kStepColumns), out);
      const std::uint8_t* scales = chunk + column / group * kStrip;
      for (int lane = 0; lane < kStrip; ++lane) out[lane] *= scale_value(scales[lane], strips.format);
    }
  }
}

template <int kTileM>
void panel_kernel(const void* packed, const void* panel, std::int64_t k, bool accumulate, float* sums) {
  const auto* a = static_cast<const float*>(packed);
  const auto* b = static_cast<const float*>(panel);
  float sum[kTileM][kStrip] = {};
  if (accumulate) std::memcpy(sum, sums, sizeof(sum));
  for (std::int64_t p = 0; p < k; ++p, a += kTileM, b += kStrip) {
    for (int r = 0; r < kTileM; ++r) {
      for (int lane = 0; lane < kStrip; ++lane) sum[r][lane] += a[r] * b[lane];
    }
  }
  std::memcpy(sums, sum, sizeof(sum));
}

void store(const float* sums, int tile_n, int rows, int columns, float alpha, OutputType type, void* out,
           std::int64_t ldo) {
  store_tile(sums, tile_n, rows, columns, alpha, type, out, ldo);
}

constexpr StreamEntry kStreams[] = {{1, kStrip, stream<1>}, {4, kStrip, stream<4>}};
constexpr PanelEntry kPanels[] = {{4, kStrip, panel_kernel<4>}};

}  // namespace

KernelSet scalar_kernels(GemmPath path, int tile_m, int tile_n) {
  return select_kernels({pack, decode, store}, kStreams, kPanels, path, tile_m, tile_n);
}

}  // namespace pinch::detail
