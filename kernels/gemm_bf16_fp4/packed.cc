#include "kernels/gemm_bf16_fp4/packed.h"

#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <cstring>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace pinch::detail {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Large weights sit on huge pages where the system gives them: the streaming path reads every byte once, and 4 KiB
// pages stop the hardware prefetcher at each boundary.
std::uint8_t* allocate(std::size_t& bytes) {
  const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : 64;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  auto* data = static_cast<std::uint8_t*>(std::aligned_alloc(alignment, bytes));
#if defined(__linux__)
  // Advice only: a system that refuses leaves small pages, which are correct.
  if (data != nullptr && alignment == kHugePage) (void)madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return data;
}

constexpr std::uint8_t scale_one(Fp4Format format) {
  return format == Fp4Format::kNvfp4 ? 0x38 : 127;
}

// One group of one channel: `codes` in checkpoint order, `steps` its first dword among the strip's rows of 16.
void pack_group(const std::uint8_t* codes, int columns, std::uint8_t* steps) {
  for (int step = 0; step < columns / kStepColumns; ++step) {
    std::uint32_t dword = 0;
    for (unsigned j = 0; j < kStepColumns / 2; ++j) {
      const std::uint32_t pair = codes[step * (kStepColumns / 2) + static_cast<int>(j)];
      dword |= (pair & 0xfU) << (4 * j) | (pair >> 4) << (16 + 4 * j);
    }
    std::memcpy(steps + step * kStrip * 4, &dword, 4);
  }
}

void pack_strip(const Fp4View& view, std::int64_t first_row, std::int64_t chunks, std::uint8_t* out) {
  const int group = static_cast<int>(group_size(view.format));
  const std::int64_t groups = view.k / group;
  const std::int64_t rows = std::min<std::int64_t>(kStrip, view.n - first_row);
  std::memset(out, 0, static_cast<std::size_t>(chunks * chunk_bytes(view.format)));
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    std::uint8_t* scales = out + chunk * chunk_bytes(view.format);
    std::uint8_t* steps = scales + kChunkGroups * kStrip;
    std::memset(scales, scale_one(view.format), kChunkGroups * kStrip);
    for (int g = 0; g < kChunkGroups && chunk * kChunkGroups + g < groups; ++g) {
      const std::int64_t column = chunk * kChunkGroups + g;
      for (std::int64_t lane = 0; lane < rows; ++lane) {
        const std::int64_t row = first_row + lane;
        const std::uint8_t scale = view.scales[scale_offset(view.scale_layout, row, column, groups)];
        if (view.format == Fp4Format::kNvfp4 && scale == 0) continue;
        scales[g * kStrip + lane] = scale;
        pack_group(view.codes + row * (view.k / 2) + column * (group / 2), group,
                   steps + (g * (group / kStepColumns) * kStrip + lane) * 4);
      }
    }
  }
}

}  // namespace

Result<std::shared_ptr<const PackedWeights>> pack_weights(const Fp4View& view) {
  PINCH_TRY(validate(view));
  auto packed = std::make_shared<PackedWeights>();
  packed->format = view.format;
  packed->n = view.n;
  packed->k = view.k;
  packed->alpha = view.alpha;
  packed->chunks = ceil_div(view.k, chunk_columns(view.format));
  const std::int64_t strips = ceil_div(view.n, kStrip);
  packed->bytes = static_cast<std::size_t>(strips * packed->strip_bytes());
  packed->data.reset(allocate(packed->bytes));
  if (packed->data == nullptr) {
    return Error{ErrorCode::kOutOfMemory,
                 fmt::format("no memory for {} bytes of prepared weights [{}, {}]", packed->bytes, view.n, view.k), ""};
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t strip = 0; strip < strips; ++strip) {
    pack_strip(view, strip * kStrip, packed->chunks, packed->data.get() + strip * packed->strip_bytes());
  }
  return std::shared_ptr<const PackedWeights>(std::move(packed));
}

}  // namespace pinch::detail
