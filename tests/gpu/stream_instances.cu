// Compiled once a format: -DPINCH_FORMAT=kNvfp4 -DPINCH_ENTRIES=stream_entries_nvfp4, and the same for MXFP4.
#include "tests/gpu/stream_instances.h"

#include <array>

namespace pinch::gemm_bf16_fp4::sm90 {

namespace {

// m_blocks, row_tiles, in_flight, k_warps, warps_per_sm
constexpr std::array kInstances{
    StreamInstance{1, 1, 2, 32, 32}, StreamInstance{1, 1, 2, 16, 32}, StreamInstance{1, 1, 4, 16, 32},
    StreamInstance{1, 1, 4, 8, 32},  StreamInstance{1, 1, 4, 4, 32},  StreamInstance{1, 1, 4, 8, 24},
    StreamInstance{1, 1, 6, 8, 24},  StreamInstance{1, 1, 4, 4, 24},  StreamInstance{1, 1, 8, 8, 16},
    StreamInstance{1, 1, 8, 4, 16},  StreamInstance{1, 1, 4, 16, 16}, StreamInstance{1, 2, 4, 8, 16},
    StreamInstance{2, 1, 4, 16, 32}, StreamInstance{2, 1, 4, 8, 24},  StreamInstance{2, 1, 4, 8, 16},
    StreamInstance{2, 1, 8, 8, 16},  StreamInstance{2, 1, 4, 4, 16},  StreamInstance{2, 2, 4, 4, 16},
    StreamInstance{4, 2, 2, 2, 16},  StreamInstance{4, 2, 2, 4, 16},  StreamInstance{4, 1, 4, 4, 16},
    StreamInstance{4, 1, 4, 8, 16},  StreamInstance{4, 2, 4, 4, 12},  StreamInstance{4, 1, 4, 2, 16},
    StreamInstance{4, 2, 2, 1, 16}};

template <std::size_t... I>
constexpr auto make_entries(std::index_sequence<I...>) {
  return std::array<StreamEntry, sizeof...(I)>{StreamEntry{kInstances[I], &launch<Format::PINCH_FORMAT, kInstances[I]>}...};
}

constexpr auto kEntries = make_entries(std::make_index_sequence<kInstances.size()>{});

}  // namespace

std::span<const StreamEntry> PINCH_ENTRIES() { return kEntries; }

#if defined(PINCH_QUERY)
cudaError_t query_device(StreamDevice* d) { return query_stream_device<Format::PINCH_FORMAT, kInstances[0]>(d); }
#endif

}  // namespace pinch::gemm_bf16_fp4::sm90
