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
  // Largest magnitude, as bits: a NaN is above every number.
  __device__ unsigned top() const {
    unsigned top = 0;
#pragma unroll
    for (const unsigned two : pair) top = max(top, max(two & 0x7FFFu, two >> 16 & 0x7FFFu));
    return top;
  }
};
__device__ __forceinline__ Eight load_eight(const std::uint16_t* from) {
  const uint4 x = __ldg(reinterpret_cast<const uint4*>(from));
  return {{x.x, x.y, x.z, x.w}};
}

constexpr int kThreads = 256;

// A thread's share of the largest magnitude of rows [begin, end), with so many loads in flight.
template <int kLoads>
__device__ __forceinline__ unsigned top_of_rows(const Source& source, const Source::Head& head, int begin, int end) {
  const int chunks = source.dim / 8;
  unsigned top = 0;
#pragma unroll kLoads
  for (int i = begin * chunks + static_cast<int>(threadIdx.x); i < end * chunks; i += kThreads)
    top = max(top, load_eight(head.data + i / chunks * source.row_stride + i % chunks * 8).top());
  return top;
}

// Largest magnitude of each (batch, head), as bits. amax was zeroed.
constexpr int kAmaxRows = 256;
__global__ void __launch_bounds__(kThreads) find_amax(Source source, unsigned* amax) {
  const Source::Head head = source.head(static_cast<int>(blockIdx.y));
  const int begin = static_cast<int>(blockIdx.x) * kAmaxRows;
  const unsigned top =
      __reduce_max_sync(0xFFFFFFFF, top_of_rows<4>(source, head, begin, min(begin + kAmaxRows, head.rows)));
  if (threadIdx.x % 32 == 0 && top > 0) atomicMax(amax + blockIdx.y, top << 16);
}

// Of 32 keys the one at place `slot` of V's row: what a thread of the kernel has of P is then a fragment as it is.
__device__ __forceinline__ int key_of_slot(int slot) {
  return slot / 16 * 16 + slot % 4 / 2 * 8 + slot % 16 / 4 * 2 + slot % 2;
}

__device__ __forceinline__ unsigned max_of_block(unsigned value) {
  __shared__ unsigned of_warp[kThreads / 32];
  value = __reduce_max_sync(0xFFFFFFFF, value);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  for (const unsigned other : of_warp) value = max(value, other);
  return value;
}

// What the blocks of one array share.
struct Magnitudes {
  unsigned* of_head;  // bits
  unsigned* of_tile;  // [head, tile]: bits | 1, 0 while not known; null where those of the heads are known
};

// The head's amax, as bits, from its tiles' own, of which `top` is this block's. A device starts blocks in their order
// and runs as many as wait here at once; where others that wait as these do, of another stream, keep a head's blocks
// from it, this one reads the whole head itself: none waits for what cannot start.
constexpr int kPatience = 256;  // readings of a word, half a microsecond each
__device__ __forceinline__ unsigned amax_of_head(const Source& source, const Source::Head& head,
                                                 const Magnitudes& shared, int index, int tile, int tiles,
                                                 unsigned top) {
  if (shared.of_tile == nullptr) return shared.of_head[index];
  top = max_of_block(top);
  unsigned* const words = shared.of_tile + index * tiles;
  if (threadIdx.x == 0) ptx::st_relaxed_gpu(words + tile, top << 16 | 1);
  bool missing = false;
  for (int i = static_cast<int>(threadIdx.x); i < tiles; i += kThreads) {
    unsigned word = 0;
    for (int reading = 0; reading < kPatience && word == 0; ++reading) word = ptx::ld_relaxed_gpu(words + i);
    missing = missing || word == 0;
    top = max(top, word >> 16);
  }
  if (__syncthreads_or(missing) != 0) top = top_of_rows<1>(source, head, 0, head.rows);
  top = max_of_block(top) << 16;
  if (tile == 0 && threadIdx.x == 0) shared.of_head[index] = top;
  return top;
}

// 128 rows to e4m3: of Q and K as [rows, kFp8Row], of V transposed as [dim, 128 keys]; rows past the end are zeros. One
// pass over memory: a block keeps its rows in registers until the head's amax is known.
constexpr int kRows = static_cast<int>(kPreparedKeys);
constexpr int kBlocksOfSm = 4;
template <int kDim, bool kTransposed>
__global__ void __launch_bounds__(kThreads, kBlocksOfSm)
    quantize_fp8(Source source, Magnitudes magnitudes, int tiles, std::uint8_t* to, std::int64_t padded_kv) {
  constexpr int kWords = kRows / 4, kChunks = kDim / 8, kParts = kWords * kChunks / kThreads;
  __shared__ std::uint32_t transposed[kTransposed ? kDim : 1][kWords + 1];
  // Columns 32 apart lie in the same bank otherwise.
  const auto place = [](int column, int word) { return word ^ column / 32 * 2; };
  const int thread = static_cast<int>(threadIdx.x);
  const int index = static_cast<int>(blockIdx.x) / tiles, tile = static_cast<int>(blockIdx.x) % tiles;
  const int first = tile * kRows;
  const Source::Head head = source.head(index);

  Eight x[kParts][4] = {};  // four rows of one chunk of eight columns
  unsigned top = 0;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int at = part * kThreads + thread, word = at / kChunks, chunk = at % kChunks;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int slot = word * 4 + j, row = first + (kTransposed ? slot / 32 * 32 + key_of_slot(slot % 32) : slot);
      if (row < head.rows) x[part][j] = load_eight(head.data + row * source.row_stride + chunk * 8);
    }
  }
#pragma unroll
  for (const auto& part : x)
    for (const Eight& eight : part) top = max(top, eight.top());
  const Fp8Divisor scale =
      fp8_divisor(fp8_scale(__uint_as_float(amax_of_head(source, head, magnitudes, index, tile, tiles, top))));
  const auto two = [&](float high, float low) -> unsigned {
    return ptx::cvt_e4m3x2(divide(high, scale), divide(low, scale));
  };

#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int at = part * kThreads + thread, word = at / kChunks, chunk = at % kChunks;
    if constexpr (kTransposed) {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const auto value = [&](int j) { return x[part][j].value(c); };
        transposed[chunk * 8 + c][place(chunk * 8 + c, word)] = two(value(1), value(0)) | two(value(3), value(2)) << 16;
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = first + word * 4 + j;
        if (row >= head.rows) continue;
        const auto value = [&](int c) { return x[part][j].value(c); };
        std::uint8_t* const out = to + (static_cast<std::int64_t>(index) * source.rows + row) * kFp8Row + chunk * 8;
        *reinterpret_cast<uint2*>(out) = {two(value(1), value(0)) | two(value(3), value(2)) << 16,
                                          two(value(5), value(4)) | two(value(7), value(6)) << 16};
        if constexpr (kDim == 64) *reinterpret_cast<uint2*>(out + 64) = {0, 0};
      }
    }
  }
  if constexpr (kTransposed) {
    __syncthreads();
    auto* out = reinterpret_cast<std::uint32_t*>(to + static_cast<std::int64_t>(index) * kDim * padded_kv + first);
    for (int i = thread; i < kDim * kWords; i += kThreads)
      out[i / kWords * (padded_kv / 4) + i % kWords] = transposed[i / kWords][place(i / kWords, i % kWords)];
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
void quantize(const Source& source, const PreparedArray& array, Magnitudes magnitudes, bool transposed,
              std::uint8_t* to, std::int64_t padded_kv, int sm_count, cudaStream_t stream) {
  if (array.tiles > std::int64_t{kBlocksOfSm} * sm_count) {
    magnitudes.of_tile = nullptr;
    find_amax<<<dim3(blocks(source.rows, kAmaxRows), static_cast<unsigned>(array.heads)), kThreads, 0, stream>>>(
        source, magnitudes.of_head);
  }
  const auto kernel = transposed ? &quantize_fp8<kDim, true> : &quantize_fp8<kDim, false>;
  kernel<<<static_cast<unsigned>(array.heads * array.tiles), kThreads, 0, stream>>>(
      source, magnitudes, static_cast<int>(array.tiles), to, padded_kv);
}

}  // namespace

cudaError_t prepare(const AttentionProblem& p, const LaunchCall& call, const DeviceFacts& device, cudaStream_t stream) {
  if (p.pv == PvType::kBf16 && p.qk == QkType::kBf16) return cudaSuccess;
  const Prepared at = prepared_layout(p);
  auto* workspace = static_cast<std::uint8_t*>(call.workspace);
  auto* words = reinterpret_cast<unsigned*>(workspace + at.amax);
  if (const cudaError_t error =
          cudaMemsetAsync(words, 0, static_cast<std::size_t>(prepared_words(p)) * sizeof(unsigned), stream);
      error != cudaSuccess)
    return error;
  const auto arrays = prepared_arrays(p);
  const auto& [q_array, k_array, v_array] = arrays;
  Magnitudes q_magnitudes{words, words + q_array.heads + k_array.heads + v_array.heads};
  Magnitudes k_magnitudes{q_magnitudes.of_head + q_array.heads, q_magnitudes.of_tile + q_array.heads * q_array.tiles};
  Magnitudes v_magnitudes{k_magnitudes.of_head + k_array.heads, k_magnitudes.of_tile + k_array.heads * k_array.tiles};
  const auto quantize_array = p.dim == 128 ? &quantize<128> : &quantize<64>;
  if (p.qk == QkType::kFp8) {
    quantize_array(source_of(call.q, call.cu_seqlens_q, p.seq, p.heads, p.dim), q_array, q_magnitudes, false,
                   workspace + at.q, 0, device.sm_count, stream);
    quantize_array(source_of(call.k, call.cu_seqlens_kv, p.kv_seq, p.kv_heads, p.dim), k_array, k_magnitudes, false,
                   workspace + at.k, 0, device.sm_count, stream);
  }
  const Source v = source_of(call.v, call.cu_seqlens_kv, p.kv_seq, p.kv_heads, p.dim);
  const auto kv_heads = static_cast<unsigned>(v_array.heads);
  if (p.pv == PvType::kFp8) {
    quantize_array(v, v_array, v_magnitudes, true, workspace + at.v, at.padded_kv, device.sm_count, stream);
  } else if (p.pv == PvType::kFp4) {
    find_amax<<<dim3(blocks(v.rows, kAmaxRows), kv_heads), kThreads, 0, stream>>>(v, v_magnitudes.of_head);
    const auto kernel = p.dim == 128 ? &quantize_values<128> : &quantize_values<64>;
    kernel<<<dim3(static_cast<unsigned>(v_array.tiles), kv_heads), static_cast<unsigned>(p.dim), 0, stream>>>(
        v, reinterpret_cast<const float*>(v_magnitudes.of_head), workspace + at.v, workspace + at.v_scales,
        at.padded_kv);
  }
  return cudaGetLastError();
}

}  // namespace pinch::attention::sm90
