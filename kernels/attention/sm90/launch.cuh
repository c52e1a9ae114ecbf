// Host side of one attention kernel: tensor maps, arguments, launch. No allocation; may be captured into a graph.
#pragma once

#include "kernels/attention/sm90/instances.h"
#include "kernels/attention/sm90/kernel.cuh"
#include "kernels/common/cuda/tensor_map.h"

namespace pinch::attention::sm90 {

namespace detail {

inline bool encode_rows(CUtensorMap* map, const Array& array, std::int64_t rows, std::int64_t heads, std::int64_t batch,
                        std::int64_t dim, int box_rows) {
  return cuda::encode_tensor_map_4d(
      map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, array.data, dim,
      {{{rows, 2 * array.row_stride}, {heads, 2 * array.head_stride}, {batch, 2 * array.batch_stride}}}, 64, box_rows);
}

/// Dense bytes [batch, heads, rows, columns].
inline bool encode_bytes(CUtensorMap* map, const void* data, std::int64_t batch, std::int64_t heads, std::int64_t rows,
                         std::int64_t columns, int box_rows) {
  return cuda::encode_tensor_map_4d(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, data, columns,
                                    {{{rows, columns}, {heads, rows * columns}, {batch, heads * rows * columns}}}, 128,
                                    box_rows);
}

template <typename T>
bool encode_maps(const AttentionProblem& p, const LaunchCall& call, CUtensorMap (&maps)[3]) {
  const bool variable = call.cu_seqlens_q != nullptr;
  const Prepared at = prepared_layout(p);
  const auto* prepared = static_cast<const std::byte*>(call.workspace);
  const std::int64_t batch = variable ? 1 : p.batch;
  // A map of no rows would be refused; one of a row that no tile asks for is not.
  const auto rows_of = [&](std::int64_t total, std::int64_t rows) {
    return variable ? std::max<std::int64_t>(total, 1) : rows;
  };
  const std::int64_t q_rows = rows_of(call.total_q, p.seq), kv_rows = rows_of(call.total_kv, p.kv_seq);
  bool good = true;
  if constexpr (T::kQk == QkType::kFp8) {
    good = encode_bytes(&maps[0], prepared + at.q, p.batch, p.heads, p.seq, kFp8Row, kWarpgroupRows) &&
           encode_bytes(&maps[1], prepared + at.k, p.batch, p.kv_heads, p.kv_seq, kFp8Row, T::kTileKv);
  } else {
    good = encode_rows(&maps[0], call.q, q_rows, p.heads, batch, p.dim, kWarpgroupRows) &&
           encode_rows(&maps[1], call.k, kv_rows, p.kv_heads, batch, p.dim, T::kTileKv);
  }
  if constexpr (T::kPv == PvType::kFp4) {
    maps[2] = maps[1];  // not used
    return good;
  } else if constexpr (T::kPv == PvType::kFp8) {
    return good && encode_bytes(&maps[2], prepared + at.v, p.batch, p.kv_heads, p.dim, at.padded_kv, T::kDim);
  } else {
    return good && encode_rows(&maps[2], call.v, kv_rows, p.kv_heads, batch, p.dim, T::kTileKv);
  }
}

}  // namespace detail

template <Kind kKind, Tile kTile>
cudaError_t launch_attention(const Tactic& tactic, const AttentionProblem& p, const LaunchCall& call,
                             const DeviceFacts& device, cudaStream_t stream) {
  using T = Traits<kKind, kTile>;
  static_assert(sizeof(SharedStorage<T>) == shared_bytes(kKind, kTile));
  const Walk walk = make_walk(tactic, p, device);
  if (walk.tiles() == 0) return cudaSuccess;
  CUtensorMap maps[3];
  if (!detail::encode_maps<T>(p, call, maps)) return cudaErrorInvalidValue;

  Params params{};
  params.o = call.o.data;
  params.o_batch_stride = call.o.batch_stride;
  params.o_head_stride = call.o.head_stride;
  params.o_row_stride = call.o.row_stride;
  params.lse = call.lse;
  params.lse_batch_stride = call.lse_batch_stride;
  params.lse_head_stride = call.lse_head_stride;
  params.cu_seqlens_q = call.cu_seqlens_q;
  params.cu_seqlens_kv = call.cu_seqlens_kv;
  auto* workspace = static_cast<std::byte*>(call.workspace);
  params.counters = reinterpret_cast<uint32_t*>(workspace);
  const Prepared at = prepared_layout(p);
  params.amax = reinterpret_cast<const float*>(workspace + at.amax);
  params.codes = reinterpret_cast<const uint8_t*>(workspace + at.v);
  params.code_scales = reinterpret_cast<const uint8_t*>(workspace + at.v_scales);
  params.value_tiles = static_cast<int>(at.padded_kv / kPreparedKeys);
  params.scale_log2 = call.scale * 1.44269504F;
  params.threshold = static_cast<float>(tactic.threshold);
  params.seq = static_cast<int>(p.seq);
  params.kv_seq = static_cast<int>(p.kv_seq);
  params.heads = static_cast<int>(p.heads);
  params.kv_heads = static_cast<int>(p.kv_heads);
  params.batch = static_cast<int>(p.batch);
  params.causal = p.causal;
  params.output_f32 = p.output == OutputType::kF32;
  const std::int64_t strides = call.o.batch_stride | call.o.head_stride | call.o.row_stride;
  params.output_wide =
      !params.output_f32 && strides % 8 == 0 && reinterpret_cast<std::uintptr_t>(call.o.data) % 16 == 0;
  params.dynamic = tactic.schedule == Schedule::kDynamic;
  params.walk = walk;

  constexpr auto* kernel = &attention_kernel<T>;
  if (const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SharedStorage<T>));
      error != cudaSuccess)
    return error;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(std::min(walk.tiles(), device.sm_count)));
  config.blockDim = dim3(T::kThreads);
  config.dynamicSmemBytes = sizeof(SharedStorage<T>);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, maps[0], maps[1], maps[2], params);
}

}  // namespace pinch::attention::sm90
