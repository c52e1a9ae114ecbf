// Compiled once a format and part: -DPINCH_FORMAT=kNvfp4 -DPINCH_PART=0 and so on.
#include "tests/gpu/stream_instances.h"

#include <array>

namespace pinch::gemm_bf16_fp4::sm90 {

namespace {

// m_blocks, row_tiles, in_flight, k_warps, warps_per_sm
constexpr std::array kInstances{
    StreamInstance{1, 1, 2, 16, 32}, StreamInstance{1, 1, 3, 8, 32},  StreamInstance{1, 1, 4, 16, 32},
    StreamInstance{1, 1, 5, 8, 24},  StreamInstance{1, 1, 5, 4, 24},  StreamInstance{1, 1, 8, 8, 16},
    StreamInstance{1, 1, 8, 4, 16},  StreamInstance{1, 2, 4, 8, 16},  StreamInstance{1, 2, 3, 8, 24},
    StreamInstance{1, 2, 2, 16, 32}, StreamInstance{1, 2, 4, 16, 16}, StreamInstance{2, 1, 8, 8, 16},
    StreamInstance{2, 1, 6, 8, 16},  StreamInstance{2, 2, 4, 8, 16},  StreamInstance{2, 2, 3, 8, 16},
    StreamInstance{4, 1, 4, 8, 16},  StreamInstance{4, 1, 4, 4, 16},  StreamInstance{4, 1, 8, 4, 12},
    StreamInstance{4, 2, 4, 4, 12}};

constexpr std::size_t kCount = (kInstances.size() + kStreamParts - 1 - PINCH_PART) / kStreamParts;

template <std::size_t... I>
constexpr auto make_entries(std::index_sequence<I...>) {
  return std::array<StreamEntry, sizeof...(I)>{
      StreamEntry{kInstances[I * kStreamParts + PINCH_PART],
                  &launch<Format::PINCH_FORMAT, kInstances[I * kStreamParts + PINCH_PART]>}...};
}

constexpr auto kEntries = make_entries(std::make_index_sequence<kCount>{});
constexpr Format kFormat = Format::PINCH_FORMAT;

}  // namespace

template <>
std::span<const StreamEntry> stream_entries<kFormat, PINCH_PART>() {
  return kEntries;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
