#include "kernels/attention/sm90/prepare.cuh"

#include "kernels/attention/numerics.h"
#include "kernels/attention/sm90/values.cuh"
#include "kernels/common/cuda/ptx/acquire_release.cuh"
#include "kernels/common/cuda/ptx/cvt.cuh"

namespace pinch::attention::sm90 {

namespace {

// Where the rows of one (batch, head) of an array lie.
struct Source {
  const std::uint16_t* data;  // bf16
  std::int64_t batch_stride, head_stride, row_stride;
  const std::int32_t* offsets;  // of variable lengths, or null
  int rows, heads, dim;

  struct Head {
    const std::uint16_t* data;
    int rows;
  };
  __device__ Head head(int index) const {
    const int b = index / heads, h = index - b * heads;
    if (offsets == nullptr) return {data + b * batch_stride + h * head_stride, rows};
    return {data + offsets[b] * row_stride + h * head_stride, offsets[b + 1] - offsets[b]};
  }
};

struct Eight {
  std::uint32_t pair[4];
  __device__ std::uint32_t half(int i) const { return pair[i / 2] >> i % 2 * 16 & 0xFFFFu; }
  __device__ float value(int i) const { return to_f32(Bf16{static_cast<std::uint16_t>(half(i))}); }
};
__device__ __forceinline__ Eight load_eight(const std::uint16_t* from) {
  const uint4 x = __ldg(reinterpret_cast<const uint4*>(from));
  return {{x.x, x.y, x.z, x.w}};
}

// Largest magnitude of each (batch, head), as bits: a NaN is above every number, and stays. amax was zeroed.
constexpr int kAmaxRows = 256;
__global__ void __launch_bounds__(256) find_amax(Source source, unsigned* amax) {
  const Source::Head head = source.head(static_cast<int>(blockIdx.y));
  const int chunks = source.dim / 8, first = static_cast<int>(blockIdx.x) * kAmaxRows;
  unsigned top = 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kAmaxRows * chunks; i += 256) {
    const int row = first + i / chunks;
    if (row >= head.rows) break;
    const Eight x = load_eight(head.data + row * source.row_stride + i % chunks * 8);
#pragma unroll
    for (const unsigned pair : x.pair) top = max(top, max(pair & 0x7FFFu, pair >> 16 & 0x7FFFu));
  }
  top = __reduce_max_sync(0xFFFFFFFF, top);
  if (threadIdx.x % 32 == 0 && top > 0) atomicMax(amax + blockIdx.y, top << 16);
}

// Of 32 keys the one at place `slot` of V's row: what a thread of the kernel has of P is then a fragment as it is.
__device__ __forceinline__ int key_of_slot(int slot) {
  return slot / 16 * 16 + slot % 4 / 2 * 8 + slot % 16 / 4 * 2 + slot % 2;
}

// What the blocks of one array share; zeroed before.
struct Progress {
  unsigned* ticket;   // blocks are numbered in the order in which they start
  unsigned* arrived;  // [heads]: blocks that have added to the head's amax; null where amax is known
  unsigned* amax;     // [heads], bits
};

// 128 rows to e4m3: of Q and K as [rows, kFp8Row], of V transposed as [dim, 128 keys]; rows past the end are zeros. The
// largest magnitude of the head comes from the same pass over memory: a block keeps its rows in registers until the
// head's other blocks have added theirs. They started before it or start next, since tickets are in order, and as many
// as a head has run at once (kMostTiles), so that none waits for one that cannot start.
constexpr int kRows = static_cast<int>(kPreparedKeys);
constexpr int kBlocksOfSm = 2;
template <int kDim, bool kTransposed>
__global__ void __launch_bounds__(256, kBlocksOfSm)
    quantize_fp8(Source source, Progress progress, int tiles, std::uint8_t* to, std::int64_t padded_kv) {
  constexpr int kWords = kRows / 4, kChunks = kDim / 8, kParts = kWords * kChunks / 256;
  __shared__ std::uint32_t transposed[kTransposed ? kDim : 1][kWords + 1];
  __shared__ unsigned ticket, tops[8];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) ticket = atomicAdd(progress.ticket, 1u);
  __syncthreads();
  const int index = static_cast<int>(ticket) / tiles, first = static_cast<int>(ticket) % tiles * kRows;
  const Source::Head head = source.head(index);

  Eight x[kParts][4] = {};  // four rows of one chunk of eight columns
  unsigned top = 0;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int at = part * 256 + thread, word = at / kChunks, chunk = at % kChunks;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int slot = word * 4 + j, row = first + (kTransposed ? slot / 32 * 32 + key_of_slot(slot % 32) : slot);
      if (row < head.rows) x[part][j] = load_eight(head.data + row * source.row_stride + chunk * 8);
#pragma unroll
      for (const unsigned pair : x[part][j].pair) top = max(top, max(pair & 0x7FFFu, pair >> 16 & 0x7FFFu));
    }
  }
  if (progress.arrived != nullptr) {
    top = __reduce_max_sync(0xFFFFFFFF, top);
    if (thread % 32 == 0) tops[thread / 32] = top;
    __syncthreads();
    if (thread == 0) {
      for (const unsigned other : tops) top = max(top, other);
      atomicMax(progress.amax + index, top << 16);
      __threadfence();
      atomicAdd(progress.arrived + index, 1u);
      while (ptx::ld_acquire_gpu(progress.arrived + index) < static_cast<unsigned>(tiles)) {
      }
    }
    __syncthreads();
  }
  const float scale = fp8_scale(__uint_as_float(ptx::ld_acquire_gpu(progress.amax + index)));

#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int at = part * 256 + thread, word = at / kChunks, chunk = at % kChunks;
    if constexpr (kTransposed) {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const unsigned low = ptx::cvt_e4m3x2(x[part][1].value(c) / scale, x[part][0].value(c) / scale);
        const unsigned high = ptx::cvt_e4m3x2(x[part][3].value(c) / scale, x[part][2].value(c) / scale);
        transposed[chunk * 8 + c][word] = low | high << 16;
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = first + word * 4 + j;
        if (row >= head.rows) continue;
        const Eight& from = x[part][j];
        const auto pair = [&](int i) -> unsigned {
          return ptx::cvt_e4m3x2(from.value(i + 1) / scale, from.value(i) / scale);
        };
        std::uint8_t* const out = to + (static_cast<std::int64_t>(index) * source.rows + row) * kFp8Row + chunk * 8;
        *reinterpret_cast<uint2*>(out) = {pair(0) | pair(2) << 16, pair(4) | pair(6) << 16};
        if constexpr (kDim == 64) *reinterpret_cast<uint2*>(out + 64) = {0, 0};
      }
    }
  }
  if constexpr (kTransposed) {
    __syncthreads();
    auto* out = reinterpret_cast<std::uint32_t*>(to + static_cast<std::int64_t>(index) * kDim * padded_kv + first);
    for (int i = thread; i < kDim * kWords; i += 256)
      out[i / kWords * (padded_kv / 4) + i % kWords] = transposed[i / kWords][i % kWords];
  }
}

// 128 keys of V to NVFP4 codes and scales in the order of values.cuh; keys past the end are zeros. A thread a block of
// 16 keys by 8 columns.
template <int kDim>
__global__ void __launch_bounds__(kDim) quantize_values(Source source, const float* amax, std::uint8_t* codes,
                                                        std::uint8_t* scales, std::int64_t padded_kv) {
  const int index = static_cast<int>(blockIdx.y), tile = static_cast<int>(blockIdx.x);
  const int block = static_cast<int>(threadIdx.x), group = block / (kDim / 8), chunk = block % (kDim / 8);
  const Source::Head head = source.head(index);
  const float global = fp4_v_global(amax[index]);
  Eight x[kGroup] = {};
  for (int i = 0; i < kGroup; ++i) {
    const int row = tile * static_cast<int>(kPreparedKeys) + group * kGroup + i;
    if (row < head.rows) x[i] = load_eight(head.data + row * source.row_stride + chunk * 8);
  }
  const std::int64_t at = index * (padded_kv / kPreparedKeys) + tile;
  auto* words = reinterpret_cast<std::uint32_t*>(codes + at * kPreparedKeys * kDim / 2);
  E4m3 scale[8];
  for (int c = 0; c < 8; ++c) {
    float top = 0;
    for (const Eight& row : x) top = larger(fabsf(row.value(c)), top);
    scale[c] = fp4_v_scale(top, global);
    scales[at * (kPreparedKeys * kDim / kGroup) + block * 8 + c] = scale[c].bits;
  }
  for (int i = 0; i < kGroup; ++i) {
    std::uint8_t eight[8];
    for (int c = 0; c < 8; ++c) eight[c] = fp4_v_code(x[i].value(c), scale[c], global).bits;
    words[code_word(kDim, group * kGroup + i, chunk)] = gemm_bf16_fp4::sm90::pack_word(eight);
  }
}

unsigned blocks(std::int64_t count, std::int64_t of) {
  return static_cast<unsigned>((count + of - 1) / of);
}

Source source_of(const Array& array, const std::int32_t* offsets, std::int64_t rows, std::int64_t heads,
                 std::int64_t dim) {
  return {static_cast<const std::uint16_t*>(array.data),
          array.batch_stride,
          array.head_stride,
          array.row_stride,
          offsets,
          static_cast<int>(rows),
          static_cast<int>(heads),
          static_cast<int>(dim)};
}

template <int kDim>
void quantize(const Source& source, std::int64_t heads, Progress progress, bool transposed, std::uint8_t* to,
              std::int64_t padded_kv, int sm_count, cudaStream_t stream) {
  const unsigned tiles = blocks(source.rows, kRows);
  if (tiles > static_cast<unsigned>(kBlocksOfSm * sm_count)) {
    progress.arrived = nullptr;
    find_amax<<<dim3(blocks(source.rows, kAmaxRows), static_cast<unsigned>(heads)), 256, 0, stream>>>(source,
                                                                                                      progress.amax);
  }
  const auto kernel = transposed ? &quantize_fp8<kDim, true> : &quantize_fp8<kDim, false>;
  kernel<<<tiles* static_cast<unsigned>(heads), 256, 0, stream>>>(source, progress, static_cast<int>(tiles), to,
                                                                  padded_kv);
}

}  // namespace

cudaError_t prepare(const AttentionProblem& p, const LaunchCall& call, const DeviceFacts& device, cudaStream_t stream) {
  if (p.pv == PvType::kBf16 && p.qk == QkType::kBf16) return cudaSuccess;
  const Prepared at = prepared_layout(p);
  auto* workspace = static_cast<std::uint8_t*>(call.workspace);
  const std::int64_t q_heads = p.batch * p.heads, kv_heads = p.batch * p.kv_heads, all = q_heads + 2 * kv_heads;
  auto* amax = reinterpret_cast<unsigned*>(workspace + at.amax);
  if (const cudaError_t error =
          cudaMemsetAsync(amax, 0, static_cast<std::size_t>(prepared_words(p)) * sizeof(unsigned), stream);
      error != cudaSuccess)
    return error;
  const auto progress = [&](std::int64_t first, int array) {
    return Progress{amax + 2 * all + array, amax + all + first, amax + first};
  };
  const auto quantize_array = p.dim == 128 ? &quantize<128> : &quantize<64>;
  if (p.qk == QkType::kFp8) {
    quantize_array(source_of(call.q, call.cu_seqlens_q, p.seq, p.heads, p.dim), q_heads, progress(0, 0), false,
                   workspace + at.q, 0, device.sm_count, stream);
    quantize_array(source_of(call.k, call.cu_seqlens_kv, p.kv_seq, p.kv_heads, p.dim), kv_heads, progress(q_heads, 1),
                   false, workspace + at.k, 0, device.sm_count, stream);
  }
  const Source v = source_of(call.v, call.cu_seqlens_kv, p.kv_seq, p.kv_heads, p.dim);
  const Progress of_v = progress(q_heads + kv_heads, 2);
  if (p.pv == PvType::kFp8) {
    quantize_array(v, kv_heads, of_v, true, workspace + at.v, at.padded_kv, device.sm_count, stream);
  } else if (p.pv == PvType::kFp4) {
    find_amax<<<dim3(blocks(v.rows, kAmaxRows), static_cast<unsigned>(kv_heads)), 256, 0, stream>>>(v, of_v.amax);
    const auto kernel = p.dim == 128 ? &quantize_values<128> : &quantize_values<64>;
    kernel<<<dim3(blocks(p.kv_seq, kPreparedKeys), static_cast<unsigned>(kv_heads)), static_cast<unsigned>(p.dim), 0,
             stream>>>(v, reinterpret_cast<const float*>(of_v.amax), workspace + at.v, workspace + at.v_scales,
                       at.padded_kv);
  }
  return cudaGetLastError();
}

}  // namespace pinch::attention::sm90
