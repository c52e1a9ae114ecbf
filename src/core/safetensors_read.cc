#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

#include "pinch/safetensors.h"
#include "src/core/file_error.h"
#include "src/core/mapped_file.h"
#include "src/core/nearest.h"
#include "src/core/safetensors_header.h"

namespace pinch {
namespace {

// Checks a tensor's own numbers against the data's size. Its place among the others is checked once they are in order.
Result<void> check_entry(const SafetensorsHeader::Entry& entry, std::uint64_t data_bytes, const std::string& file) {
  const TensorInfo& tensor = entry.tensor;
  const auto bytes = byte_size(tensor.dtype, tensor.shape);
  if (!bytes) return corrupt(file, entry.at, "shape_overflow", quote_name(tensor.name) + ": " + bytes.error().text);
  if (tensor.end < tensor.begin) {
    return corrupt(
        file, entry.at, "offsets_reversed",
        fmt::format("{} ends at {} before it begins at {}", quote_name(tensor.name), tensor.end, tensor.begin));
  }
  if (tensor.end > data_bytes) {
    return corrupt(file, entry.at, "offsets_out_of_range",
                   fmt::format("{} ends at {}, but the data has {} bytes; the file is cut short or its header is wrong",
                               quote_name(tensor.name), tensor.end, data_bytes));
  }
  if (tensor.end - tensor.begin != *bytes) {
    return corrupt(file, entry.at, "size_mismatch",
                   fmt::format("{} is {} {}, {} bytes, but its offsets hold {}", quote_name(tensor.name),
                               to_string(tensor.dtype), to_string(tensor.shape), *bytes, tensor.end - tensor.begin));
  }
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  PINCH_ASSIGN(mapping, MappedFile::open(path));
  PINCH_ASSIGN(file, parse(mapping->bytes(), path));
  file.mapping_ = mapping;
  return std::move(file);
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> file, std::string name) {
  if (file.size() < kSafetensorsLengthBytes) {
    return corrupt(name, file.size(), "truncated_length",
                   fmt::format("{} bytes; a .safetensors file starts with 8 bytes of header length", file.size()));
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const std::uint64_t after_length = file.size() - kSafetensorsLengthBytes;
  if (header_bytes > kSafetensorsMaxHeaderBytes || header_bytes > after_length) {
    const bool is_text = file.front() == std::byte{'{'};
    return corrupt(
        name, 0, "header_too_long",
        fmt::format("a header of {} bytes where {} follow; at most {}{}", header_bytes, after_length,
                    std::min(after_length, kSafetensorsMaxHeaderBytes),
                    is_text ? "; the file is text: give one of the .safetensors files that an index names" : ""));
  }
  const std::string_view json(reinterpret_cast<const char*>(file.data() + kSafetensorsLengthBytes),
                              static_cast<std::size_t>(header_bytes));
  PINCH_ASSIGN(header, parse_safetensors_header(json, name));

  SafetensorsFile result;
  result.data_ = file.subspan(kSafetensorsLengthBytes + static_cast<std::size_t>(header_bytes));
  result.metadata_ = std::move(header.metadata);
  for (SafetensorsHeader::Entry& entry : header.entries) {
    PINCH_TRY(check_entry(entry, result.data_.size(), name));
    result.tensors_.push_back(std::move(entry.tensor));
  }
  std::sort(result.tensors_.begin(), result.tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });

  const std::uint64_t data_at = kSafetensorsLengthBytes + header_bytes;
  std::uint64_t covered = 0;
  std::string_view before = "the header";
  for (const TensorInfo& tensor : result.tensors_) {
    if (tensor.begin < covered) {
      return corrupt(name, data_at + tensor.begin, "offsets_overlap",
                     fmt::format("{} begins inside {}", quote_name(tensor.name), quote_name(before)));
    }
    if (tensor.begin > covered) {
      return corrupt(
          name, data_at + covered, "offsets_gap",
          fmt::format("{} bytes before {} belong to no tensor", tensor.begin - covered, quote_name(tensor.name)));
    }
    covered = tensor.end;
    before = tensor.name;
  }
  if (covered != result.data_.size()) {
    return corrupt(name, data_at + covered, "offsets_gap",
                   fmt::format("{} bytes at the end belong to no tensor", result.data_.size() - covered));
  }

  result.by_name_.resize(result.tensors_.size());
  std::iota(result.by_name_.begin(), result.by_name_.end(), 0U);
  std::sort(result.by_name_.begin(), result.by_name_.end(),
            [&](auto a, auto b) { return result.tensors_[a].name < result.tensors_[b].name; });
  result.path_ = std::move(name);
  return result;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](auto index, std::string_view wanted) { return tensors_[index].name < wanted; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

TensorView SafetensorsFile::view(const TensorInfo& tensor) const {
  return {tensor.dtype, tensor.shape,
          data_.subspan(static_cast<std::size_t>(tensor.begin), static_cast<std::size_t>(tensor.end - tensor.begin))};
}

Result<TensorView> SafetensorsFile::tensor(std::string_view name) const {
  if (const TensorInfo* found = find(name)) return view(*found);
  // The distance of two names costs the product of their lengths, and names come from the file.
  constexpr std::size_t kLongestCompared = 256;
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.name.size() <= kLongestCompared) names.push_back(quote_name(tensor.name));
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("no tensor {} among {}; {}", quote_name(name), tensors_.size(),
                           did_you_mean(quote_name(name.substr(0, kLongestCompared)), names)),
               path_};
}

void SafetensorsFile::release(std::span<const std::byte> bytes) const {
  if (mapping_) mapping_->release(bytes);
}

}  // namespace pinch
