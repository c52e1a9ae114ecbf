#include "tests/gpu/support/attention_reference.h"

#include <cmath>

#include "kernels/attention/numerics.h"
#include "tests/gpu/support/device_buffer.h"

namespace pinch::gpu_test {

using namespace attention;

namespace {

__device__ double block_sum(double x) {
  __shared__ double parts[4];
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFF, x, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  return parts[0] + parts[1] + parts[2] + parts[3];
}
__device__ double block_max(double x) {
  __shared__ double parts[4];
  for (int step = 16; step > 0; step /= 2) x = fmax(x, __shfl_xor_sync(0xFFFFFFFF, x, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  return fmax(fmax(parts[0], parts[1]), fmax(parts[2], parts[3]));
}

constexpr int kTile = 128;  // keys at a time of the reference; a thread each

// Products of Q with one key, after `round_q` and `round_k`; 16 bytes at a time, or this takes most of a check's time.
template <class RoundQ, class RoundK>
__device__ double score(const AttentionView& view, const AttentionView::Row& row, int key, RoundQ round_q,
                        RoundK round_k) {
  double s = 0;
  for (int c = 0; c < view.dim; c += 8) {
    const uint4 q = *reinterpret_cast<const uint4*>(row.q + c);
    const uint4 k = *reinterpret_cast<const uint4*>(row.k + key * view.kv_row + c);
    const std::uint32_t qs[] = {q.x, q.y, q.z, q.w}, ks[] = {k.x, k.y, k.z, k.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const auto half = [i](const std::uint32_t(&x)[4]) {
        return to_f32(Bf16{static_cast<std::uint16_t>(x[i / 2] >> i % 2 * 16)});
      };
      s += static_cast<double>(round_q(half(qs))) * static_cast<double>(round_k(half(ks)));
    }
  }
  return s;
}

// One query a block of 128 threads: a thread a key of the tile, then a thread a column.
__global__ void __launch_bounds__(kTile) reference(AttentionView view, double* o, double* lse) {
  __shared__ double p[kTile];
  const int query = static_cast<int>(blockIdx.x), h = static_cast<int>(blockIdx.y), b = static_cast<int>(blockIdx.z);
  const AttentionView::Row row = view.row(b, h, query);
  if (row.seq == 0) return;
  const int t = static_cast<int>(threadIdx.x);
  double m = -INFINITY, l = 0, sum = 0;
  for (int first = 0; first < row.visible; first += kTile) {
    const int key = first + t;
    const auto exact = [](float x) { return x; };
    const double s =
        key < row.visible ? score(view, row, key, exact, exact) * static_cast<double>(view.scale) : -INFINITY;
    const double top = fmax(m, block_max(s)), decay = m == top ? 1 : exp(m - top);
    m = top;
    p[t] = exp(m == -INFINITY ? s : s - m);  // nothing seen yet
    const double tile_sum = block_sum(p[t]);
    l = l * decay + tile_sum;
    sum *= decay;
    __syncthreads();
    if (t < view.dim)
      for (int j = 0; j < min(kTile, row.visible - first); ++j)
        sum += p[j] * static_cast<double>(value(row.v + (first + j) * view.kv_row + t));
    __syncthreads();
  }
  const std::int64_t at = (static_cast<std::int64_t>(b) * view.heads + h) * view.seq + query;
  if (t < view.dim) o[at * view.dim + t] = l == 0 ? 0 : sum / l;
  if (t == 0) lse[at] = l == 0 ? -INFINITY : m + log(l);
}

// Largest magnitude of each (batch, head), a block each.
__global__ void __launch_bounds__(256) find_amax(AttentionView view, int which, float* to) {
  __shared__ float parts[256];
  const int heads = which == 0 ? view.heads : view.kv_heads;
  const int b = static_cast<int>(blockIdx.x) / heads, h = static_cast<int>(blockIdx.x) % heads;
  const AttentionView::Row row = view.row(b, which == 0 ? h : h * (view.heads / view.kv_heads), 0);
  const std::uint16_t* from = which == 0 ? row.q : which == 1 ? row.k : row.v;
  const std::int64_t stride = which == 0 ? view.q_row : view.kv_row;
  const int rows = which == 0 ? (view.cu_q != nullptr ? view.cu_q[b + 1] - view.cu_q[b] : view.seq) : row.kv_seq;
  float top = 0;
  for (int r = static_cast<int>(threadIdx.x); r < rows; r += 256)
    for (int c = 0; c < view.dim; ++c) top = fmaxf(top, fabsf(value(from + r * stride + c)));
  parts[threadIdx.x] = top;
  __syncthreads();
  for (int i = 128; i > 0; i /= 2) {
    if (static_cast<int>(threadIdx.x) < i) parts[threadIdx.x] = fmaxf(parts[threadIdx.x], parts[threadIdx.x + i]);
    __syncthreads();
  }
  if (threadIdx.x == 0) to[blockIdx.x] = parts[0];
}

struct Emulated {
  int tile_kv, tile_q;
  float threshold;
  Exp2 exp2;
  Quant quant;
  const float *amax_q, *amax_k, *amax_v;
};

// V of one key as the product takes it; fp4: in units of the global factor.
__device__ double product_value(const AttentionView& view, const AttentionView::Row& row, int key, int c, float amax) {
  const float v = value(row.v + key * view.kv_row + c);
  if (view.pv == PvType::kBf16) return static_cast<double>(v);
  if (view.pv == PvType::kFp8) return static_cast<double>(to_f32(to_e4m3(v / fp8_scale(amax))));
  const float global = fp4_v_global(amax);
  float top = 0;
  const int first = key / kGroup * kGroup;
  for (int j = first; j < min(first + kGroup, row.kv_seq); ++j)
    top = fmaxf(top, fabsf(value(row.v + j * view.kv_row + c)));
  const E4m3 scale = fp4_v_scale(top, global);
  return static_cast<double>(fp4_value(fp4_v_code(v, scale, global), scale));
}

__device__ float exp2_by(Exp2 exp2, float x) {
  if (exp2 == Exp2::kPoly3) return exp2_poly<3>(x);
  if (exp2 == Exp2::kPoly4) return exp2_poly<4>(x);
  if (exp2 == Exp2::kPoly5) return exp2_poly<5>(x);
  return exp2_hardware(x);
}

// As `reference`, in the kernel's order of tiles and with its roundings.
__global__ void __launch_bounds__(kTile) emulation(AttentionView view, Emulated by, double* o, double* lse) {
  extern __shared__ float tile[];  // s, then P, of tile_kv keys
  const int query = static_cast<int>(blockIdx.x), h = static_cast<int>(blockIdx.y), b = static_cast<int>(blockIdx.z);
  const AttentionView::Row row = view.row(b, h, query);
  if (row.seq == 0) return;
  const int t = static_cast<int>(threadIdx.x), kv_of = h / (view.heads / view.kv_heads);
  const float amax_v = by.amax_v[b * view.kv_heads + kv_of];
  float q_scale = 1, k_scale = 1, scale_log2 = view.scale * 1.44269504F;
  if (view.qk == QkType::kFp8) {
    q_scale = fp8_scale(by.amax_q[b * view.heads + h]), k_scale = fp8_scale(by.amax_k[b * view.kv_heads + kv_of]);
    scale_log2 *= q_scale * k_scale;
  }
  // Key tiles are those of the query tile's last row.
  const int last = min(query / by.tile_q * by.tile_q + by.tile_q, row.seq) - 1;
  const int seen = view.causal ? max(0, min(last + row.kv_seq - row.seq + 1, row.kv_seq)) : row.kv_seq;
  const float offset = view.pv == PvType::kFp8 ? kFp8Offset : 0.0F;
  float m = -INFINITY;
  double l = 0, sum = 0;
  for (int first = (seen + by.tile_kv - 1) / by.tile_kv * by.tile_kv - by.tile_kv; first >= 0; first -= by.tile_kv) {
    double top = -INFINITY;
    for (int i = t; i < by.tile_kv; i += kTile) {
      const int key = first + i;
      double s = -INFINITY;
      if (key < row.visible) {
        const bool fp8 = view.qk == QkType::kFp8;
        s = score(
            view, row, key, [&](float x) { return fp8 ? to_f32(to_e4m3(x / q_scale)) : x; },
            [&](float x) { return fp8 ? to_f32(to_e4m3(x / k_scale)) : x; });
      }
      tile[i] = static_cast<float>(s);
      top = fmax(top, static_cast<double>(tile[i]));
    }
    const float moved = next_max(m, static_cast<float>(block_max(top)) * scale_log2, by.threshold);
    const double decay = m == moved ? 1 : exp2(static_cast<double>(m) - static_cast<double>(moved));
    m = moved;
    __syncthreads();
    const float minus = subtrahend(m);
    double tile_sum = 0;
    if (view.pv != PvType::kFp4) {
      for (int i = t; i < by.tile_kv; i += kTile) {
        const float e = exp2_by(by.exp2, fma(tile[i], scale_log2, offset - minus));
        tile_sum += static_cast<double>(e);
        tile[i] = view.pv == PvType::kBf16 ? to_f32(to_bf16(e)) : to_f32(to_e4m3(e));
      }
    } else if (t < by.tile_kv / kGroup) {
      float* s = tile + t * kGroup;
      float x[kGroup];
      for (int i = 0; i < kGroup; ++i) x[i] = fma(s[i], scale_log2, -minus);
      if (by.quant == Quant::kLinear) {
        for (float& e : x) e = exp2_by(by.exp2, e), tile_sum += static_cast<double>(e);
        const Fp4Scale group = fp4_linear_scale(group_max(x));
        for (int i = 0; i < kGroup; ++i) s[i] = fp4_value(fp4_linear_code(x[i], group), group.scale);
      } else {
        const Fp4LogScale group = fp4_log_scale<Exp2::kHardware>(group_max(x));
        for (int i = 0; i < kGroup; ++i) {
          const float e = exp2_by(by.exp2, x[i] - group.fold);
          tile_sum += static_cast<double>(e) * static_cast<double>(group.unit);
          s[i] = fp4_value(fp4_log_code(e), group.scale);
        }
      }
    }
    l = l * decay + block_sum(tile_sum);
    sum *= decay;
    __syncthreads();
    if (t < view.dim)
      for (int j = 0; j < by.tile_kv && first + j < row.kv_seq; ++j)
        if (tile[j] != 0) sum += static_cast<double>(tile[j]) * product_value(view, row, first + j, t, amax_v);
    __syncthreads();
  }
  const std::int64_t at = (static_cast<std::int64_t>(b) * view.heads + h) * view.seq + query;
  const double unit = view.pv == PvType::kBf16  ? 1.0
                      : view.pv == PvType::kFp8 ? static_cast<double>(fp8_scale(amax_v))
                                                : 1.0 / (448.0 * 6.0) / static_cast<double>(fp4_v_global(amax_v));
  if (t < view.dim) o[at * view.dim + t] = l == 0 ? 0 : sum * unit / l;
  if (t == 0) lse[at] = l == 0 ? -INFINITY : (static_cast<double>(m - offset) + log2(l)) * 0.6931471805599453;
}

dim3 rows_grid(const AttentionView& view) {
  return {static_cast<unsigned>(view.seq), static_cast<unsigned>(view.heads), static_cast<unsigned>(view.batch)};
}

}  // namespace

void compute_attention_reference(const AttentionView& view, double* o, double* lse) {
  reference<<<rows_grid(view), kTile>>>(view, o, lse);
  PINCH_CUDA_CHECK(cudaGetLastError());
  PINCH_CUDA_CHECK(cudaDeviceSynchronize());
}

void compute_attention_emulation(const AttentionView& view, const sm90::Tactic& tactic, double* o, double* lse) {
  const auto q_heads = static_cast<unsigned>(view.batch * view.heads);
  const auto kv_heads = static_cast<unsigned>(view.batch * view.kv_heads);
  DeviceBuffer<float> amax(q_heads + 2 * kv_heads);
  find_amax<<<q_heads, 256>>>(view, 0, amax.data());
  find_amax<<<kv_heads, 256>>>(view, 1, amax.data() + q_heads);
  find_amax<<<kv_heads, 256>>>(view, 2, amax.data() + q_heads + kv_heads);
  const Emulated by{tactic.tile.tile_kv,
                    tactic.tile.tile_q,
                    static_cast<float>(tactic.threshold),
                    tactic.tile.exp2,
                    tactic.tile.quant,
                    amax.data(),
                    amax.data() + q_heads,
                    amax.data() + q_heads + kv_heads};
  emulation<<<rows_grid(view), kTile, static_cast<std::size_t>(tactic.tile.tile_kv) * 4>>>(view, by, o, lse);
  PINCH_CUDA_CHECK(cudaGetLastError());
  PINCH_CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace pinch::gpu_test
