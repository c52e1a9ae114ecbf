// Tensor maps, by the driver's own function, which is found at run time: no program links the driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>

namespace pinch::cuda {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

/// The driver's function, looked up once; null where the driver has none.
inline EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result{};
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result) !=
            cudaSuccess ||
        result != cudaDriverEntryPointSuccess)
      entry = nullptr;
    return reinterpret_cast<EncodeTiled>(entry);
  }();
  return function;
}

/// A dimension of a tensor map above the contiguous one.
struct MapDimension {
  std::int64_t size;
  std::int64_t stride_bytes;  // a multiple of 16
};

/// Boxes of box_columns x box_rows elements of `type` (128 bytes wide), 128-byte swizzle, zeros outside. False where
/// the driver refuses: a misaligned pointer or stride.
inline bool encode_tensor_map_4d(CUtensorMap* map, CUtensorMapDataType type, const void* data, std::int64_t columns,
                                 std::array<MapDimension, 3> dimensions, int box_columns, int box_rows) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return false;
  cuuint64_t sizes[4] = {static_cast<cuuint64_t>(columns)}, strides[3];
  for (int i = 0; i < 3; ++i) {
    const MapDimension& d = dimensions[static_cast<std::size_t>(i)];
    sizes[i + 1] = static_cast<cuuint64_t>(d.size);
    // Nobody steps along a dimension of one element: its stride only has to be one that the driver takes.
    strides[i] = static_cast<cuuint64_t>(d.size == 1 ? 16 * columns : d.stride_bytes);
  }
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(box_columns), static_cast<cuuint32_t>(box_rows), 1, 1};
  const cuuint32_t element_strides[4] = {1, 1, 1, 1};
  return encode(map, type, 4, const_cast<void*>(data), sizes, strides, box, element_strides,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace pinch::cuda
