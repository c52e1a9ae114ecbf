// Prepared weights as a file: a header, then codes and scales as prepared.h lays them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gemm_bf16_fp4/sm90/prepared.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// Of the header and the layout behind it.
inline constexpr std::uint32_t kPreparedVersion = 1;

/// Where codes start: keeps every tile aligned to 256 bytes in a mapped file.
inline constexpr std::uint64_t kCodesOffsetBytes = 256;

/// Numbers are little-endian. Between the header and the codes there are zeros.
struct PreparedHeader {
  char magic[8];  // "PINCHW4\0"
  std::uint32_t version;
  std::uint32_t header_bytes;
  Format format;
  float alpha;
  std::int64_t n;  // logical rows, before padding
  std::int64_t k;
  std::int32_t acc_exponent;  // out = accumulator * 2^acc_exponent * alpha
  std::uint32_t reserved;     // 0
  std::uint64_t codes_offset_bytes;
  std::uint64_t scales_offset_bytes;
  std::uint64_t total_bytes;
  std::uint64_t hash;  // file_hash()
};
static_assert(sizeof(PreparedHeader) == 80);

/// Of the header, whose own hash counts as 0, and of codes and scales. Tells a damaged file from a whole one; no
/// defence against an adversary. FNV-1a over 64-bit words; sizes are multiples of 8.
std::uint64_t file_hash(PreparedHeader header, std::span<const std::byte> codes_and_scales);

PreparedHeader make_header(Format f, int n, int k, float alpha, int acc_exponent,
                           std::span<const std::byte> codes_and_scales);

enum class FileFault { kNone, kOtherKind, kOtherVersion, kDamaged };

/// What is wrong with the bytes of a file, if anything. They are aligned to 8.
FileFault file_fault(std::span<const std::byte> file);

/// The header of a file that has no fault.
const PreparedHeader& header_of(std::span<const std::byte> file);

}  // namespace pinch::gemm_bf16_fp4::sm90
