#include "workbench/sass/fatbin.h"

#include <fmt/core.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>

namespace pinch::sass {
namespace {

constexpr std::uint16_t kKindPtx = 1, kKindCubin = 2;
constexpr std::uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000;
constexpr std::uint64_t kMaxDecompressedBytes = std::uint64_t{1} << 31;
constexpr std::uint64_t kMaxRatio = 4096;  // of decompressed to compressed: more is a planted size, not code

// Offsets of the fields, as nvcc 13.0 writes them (read off own builds with each -compress-mode).
struct EntryHeader {
  std::uint16_t kind;
  std::uint32_t header_bytes;
  std::uint64_t size_bytes;
  std::uint32_t compressed_bytes;
  std::uint64_t flags;
  std::uint64_t decompressed_bytes;
};

class FatbinReader {
 public:
  FatbinReader(Bytes bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<std::vector<FatbinEntry>> read() {
    std::uint64_t at = 0;
    while (at + 16 <= bytes_.size()) {
      if (*read_at<std::uint32_t>(bytes_, at) != kFatbinMagic) {
        at += 8;  // containers are aligned to 8; zeros lie between them
        continue;
      }
      const std::uint16_t header_bytes = *read_at<std::uint16_t>(bytes_, at + 6);
      const std::uint64_t size_bytes = *read_at<std::uint64_t>(bytes_, at + 8);
      if (header_bytes < 16 || !slice(bytes_, at + header_bytes, size_bytes)) {
        return fail(at, fmt::format("a fatbin claims {} bytes; {} are left", size_bytes, bytes_.size() - at));
      }
      PINCH_TRY(container(at + header_bytes, at + header_bytes + size_bytes));
      at += header_bytes + size_bytes;
    }
    if (entries_.empty()) return fail(0, "no PTX and no cubin in this fatbin");
    return std::move(entries_);
  }

 private:
  Error fail(std::uint64_t at, const std::string& what) const {
    return {ErrorCode::kCorrupt, what, fmt::format("{}, offset 0x{:x} of the fatbin", name_, at)};
  }

  Result<void> container(std::uint64_t at, std::uint64_t end) {
    while (at < end) {
      const auto header = entry_header(at);
      if (!header || header->header_bytes < 64 || !slice(bytes_, at + header->header_bytes, header->size_bytes) ||
          at + header->header_bytes + header->size_bytes > end) {
        return fail(at, "an entry of the fatbin ends outside it");
      }
      if (header->kind == kKindPtx || header->kind == kKindCubin) {
        PINCH_TRY(entry(at, *header));
      }
      at += header->header_bytes + header->size_bytes;
    }
    return {};
  }

  std::optional<EntryHeader> entry_header(std::uint64_t at) const {
    const auto raw = slice(bytes_, at, 64);
    if (!raw) return std::nullopt;
    return EntryHeader{*read_at<std::uint16_t>(*raw, 0),  *read_at<std::uint32_t>(*raw, 4),
                       *read_at<std::uint64_t>(*raw, 8),  *read_at<std::uint32_t>(*raw, 16),
                       *read_at<std::uint64_t>(*raw, 40), *read_at<std::uint64_t>(*raw, 56)};
  }

  Result<void> entry(std::uint64_t at, const EntryHeader& header) {
    const Bytes payload = *slice(bytes_, at + header.header_bytes, header.size_bytes);
    auto text = std::make_shared<std::string>();
    if ((header.flags & (kFlagLz4 | kFlagZstd)) == 0) {
      text->assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    } else {
      const std::uint64_t wanted = header.decompressed_bytes;
      const auto packed = slice(payload, 0, header.compressed_bytes);
      if (!packed || wanted > kMaxDecompressedBytes || wanted > (packed->size() + 64) * kMaxRatio) {
        return fail(at, fmt::format("an entry of {} compressed bytes claims {}", header.compressed_bytes, wanted));
      }
      text->resize(static_cast<std::size_t>(wanted));
      if (!decompress(*packed, header.flags, *text)) return fail(at, "an entry of the fatbin does not decompress");
    }
    if (header.kind == kKindPtx) text->resize(std::min(text->size(), text->find('\0')));  // padded with zeros
    entries_.push_back({header.kind == kKindPtx ? FatbinEntry::kPtx : FatbinEntry::kCubin, std::move(text)});
    return {};
  }

  static bool decompress(Bytes packed, std::uint64_t flags, std::string& into) {
    const auto* from = reinterpret_cast<const char*>(packed.data());
    if ((flags & kFlagZstd) != 0) {
      const std::size_t made = ZSTD_decompress(into.data(), into.size(), from, packed.size());
      return ZSTD_isError(made) == 0 && made == into.size();
    }
    const int made =
        LZ4_decompress_safe(from, into.data(), static_cast<int>(packed.size()), static_cast<int>(into.size()));
    return made >= 0 && static_cast<std::size_t>(made) == into.size();
  }

  Bytes bytes_;
  const std::string& name_;
  std::vector<FatbinEntry> entries_;
};

}  // namespace

Result<std::vector<FatbinEntry>> read_fatbins(Bytes bytes, const std::string& name) {
  return FatbinReader(bytes, name).read();
}

}  // namespace pinch::sass
