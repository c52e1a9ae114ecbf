#include "kernels/gemm_bf16_fp4/sm90/prepare.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

namespace {

__global__ void clear_kernel(PrepareReport* r) {
  *r = {0, 0, -1, 256};
}

/// One thread a scale. Counts and extremes are integers, so the order of the atomics does not show.
__global__ void inspect_kernel(CanonicalWeights w, PrepareReport* r) {
  const int groups = w.k / group_size(w.format);
  const long long total = static_cast<long long>(w.n) * groups;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < total;
       i += static_cast<long long>(gridDim.x) * blockDim.x) {
    const int row = static_cast<int>(i / groups), group = static_cast<int>(i % groups);
    const std::uint32_t s = canonical_scale(w, row, group);
    if (w.format == Format::kNvfp4) {
      if ((s & 0x7fu) == 0x7fu) {
        atomicAdd(&r->nan_scales, 1);
      } else if (s > 0x80u) {
        atomicAdd(&r->negative_scales, 1);
      }
    } else if (s == 0xffu) {
      atomicAdd(&r->nan_scales, 1);
    } else if (!group_is_zero(w, row, group)) {
      const int e = static_cast<int>(s);
      if (e > r->max_ue8m0) atomicMax(&r->max_ue8m0, e);
      if (e < r->min_ue8m0) atomicMin(&r->min_ue8m0, e);
    }
  }
}

/// One block a tile, one thread for each 16 bytes of codes.
__global__ void __launch_bounds__(128) prepare_kernel(CanonicalWeights w, int col_tiles, std::uint8_t* codes,
                                                      std::uint8_t* scales, const PrepareReport* r) {
  const int row_tile = blockIdx.x / col_tiles, col_tile = blockIdx.x % col_tiles, thread = threadIdx.x;
  std::uint32_t word[4];
  for (int block = 0; block < 4; ++block) word[block] = prepared_code_word(w, row_tile, col_tile, thread, block);
  reinterpret_cast<uint4*>(codes)[static_cast<std::size_t>(blockIdx.x) * 128 + thread] =
      make_uint4(word[0], word[1], word[2], word[3]);
  const int scale_words = scale_tile_bytes(w.format) / 4;
  if (thread < scale_words) {
    reinterpret_cast<std::uint32_t*>(scales)[static_cast<std::size_t>(blockIdx.x) * scale_words + thread] =
        prepared_scale_word(w, row_tile, col_tile, thread, r->max_ue8m0);
  }
}

}  // namespace

cudaError_t prepare_weights_device(const CanonicalWeights& w, std::uint8_t* codes, std::uint8_t* scales,
                                   PrepareReport* report, cudaStream_t stream) {
  if (!prepare_shape_ok(w.n, w.k)) return cudaErrorInvalidValue;
  const PreparedExtent e = prepared_extent(w.format, w.n, w.k);
  clear_kernel<<<1, 1, 0, stream>>>(report);
  inspect_kernel<<<1024, 256, 0, stream>>>(w, report);
  prepare_kernel<<<static_cast<unsigned>(e.row_tiles) * static_cast<unsigned>(e.col_tiles), 128, 0, stream>>>(
      w, e.col_tiles, codes, scales, report);
  return cudaGetLastError();
}

}  // namespace pinch::gemm_bf16_fp4::sm90
