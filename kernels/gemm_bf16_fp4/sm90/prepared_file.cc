#include "kernels/gemm_bf16_fp4/sm90/prepared_file.h"

#include <cmath>
#include <cstring>

#include "kernels/gemm_bf16_fp4/sm90/prepare.h"

namespace pinch::gemm_bf16_fp4::sm90 {

namespace {

constexpr char kMagic[8] = {'P', 'I', 'N', 'C', 'H', 'W', '4', '\0'};

std::uint64_t extend(std::uint64_t hash, std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    hash = (hash ^ word) * 0x100000001b3ULL;
    hash ^= hash >> 32;  // a product carries upwards alone: without this a word's high bits would reach no low one
  }
  return hash;
}

}  // namespace

std::uint64_t file_hash(PreparedHeader header, std::span<const std::byte> codes_and_scales) {
  header.hash = 0;
  constexpr std::uint64_t kOffset = 0xcbf29ce484222325ULL;
  return extend(extend(kOffset, std::as_bytes(std::span(&header, 1))), codes_and_scales);
}

PreparedHeader make_header(Format f, int n, int k, float alpha, int acc_exponent,
                           std::span<const std::byte> codes_and_scales) {
  const PreparedExtent e = prepared_extent(f, n, k);
  PreparedHeader h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = kPreparedVersion;
  h.header_bytes = sizeof h;
  h.format = f;
  h.alpha = alpha;
  h.n = n;
  h.k = k;
  h.acc_exponent = acc_exponent;
  h.codes_offset_bytes = kCodesOffsetBytes;
  h.scales_offset_bytes = h.codes_offset_bytes + e.codes_bytes;
  h.total_bytes = h.scales_offset_bytes + e.scales_bytes;
  h.hash = file_hash(h, codes_and_scales);
  return h;
}

FileFault file_fault(std::span<const std::byte> file) {
  if (file.size() < kCodesOffsetBytes || std::memcmp(file.data(), kMagic, sizeof kMagic) != 0)
    return FileFault::kOtherKind;
  const PreparedHeader& h = header_of(file);
  if (h.version != kPreparedVersion) return FileFault::kOtherVersion;
  if (h.format != Format::kNvfp4 && h.format != Format::kMxfp4) return FileFault::kDamaged;
  if (h.n > 0x7fffffff || h.k > 0x7fffffff || !prepare_shape_ok(static_cast<int>(h.n), static_cast<int>(h.k)) ||
      !std::isfinite(h.alpha))
    return FileFault::kDamaged;
  const PreparedExtent e = prepared_extent(h.format, static_cast<int>(h.n), static_cast<int>(h.k));
  if (file.size() != kCodesOffsetBytes + e.codes_bytes + e.scales_bytes) return FileFault::kDamaged;
  const PreparedHeader want = make_header(h.format, static_cast<int>(h.n), static_cast<int>(h.k), h.alpha,
                                          h.acc_exponent, file.subspan(kCodesOffsetBytes));
  return std::memcmp(&h, &want, sizeof h) == 0 ? FileFault::kNone : FileFault::kDamaged;
}

const PreparedHeader& header_of(std::span<const std::byte> file) {
  return *reinterpret_cast<const PreparedHeader*>(file.data());
}

}  // namespace pinch::gemm_bf16_fp4::sm90
