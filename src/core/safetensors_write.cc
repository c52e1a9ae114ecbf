#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "pinch/safetensors.h"
#include "src/core/atomic_file.h"
#include "src/core/file_error.h"
#include "src/core/safetensors_header.h"

namespace pinch {
namespace {

using nlohmann::json;

Error refused(const std::string& path, std::string text) {
  return {ErrorCode::kInvalidArgument, std::move(text), path};
}

// Put together entry by entry: an object that keeps the order of its keys searches all of them for each. Throws where a
// text is not UTF-8.
template <class Slots>
std::string header_text(const std::vector<TensorSpec>& tensors, const Slots& slots,
                        const std::vector<std::size_t>& order, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [name, value] : metadata) {
      text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", json(name).dump(), json(value).dump());
    }
    text += '}';
  }
  for (const std::size_t index : order) {
    const TensorSpec& tensor = tensors[index];
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", text == "{" ? "" : ",",
                        json(tensor.name).dump(), to_string(tensor.dtype), json(tensor.shape).dump(), slots[index].next,
                        slots[index].end);
  }
  return text + '}';
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<AtomicFile> file, std::vector<Slot> slots)
    : file_(std::move(file)), slots_(std::move(slots)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path, std::vector<TensorSpec> tensors,
                                                    const Metadata& metadata) {
  std::set<std::string_view> names = {"__metadata__"};
  for (const TensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return refused(
          path, fmt::format("two tensors (or the metadata) are named {}; names are unique", quote_name(tensor.name)));
    }
  }
  std::set<std::string_view> entries;
  for (const auto& [name, text] : metadata) {
    if (!entries.insert(name).second) return refused(path, fmt::format("two metadata entries {}", quote_name(name)));
  }

  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return bits(tensors[a].dtype) > bits(tensors[b].dtype); });
  std::vector<Slot> slots(tensors.size());
  std::uint64_t data_bytes = 0;
  for (const std::size_t index : order) {
    const TensorSpec& tensor = tensors[index];
    const auto bytes = byte_size(tensor.dtype, tensor.shape);
    if (!bytes) return refused(path, quote_name(tensor.name) + ": " + bytes.error().text);
    slots[index] = {tensor.name, data_bytes, data_bytes + *bytes};
    if (slots[index].end < data_bytes) return refused(path, "the tensors' bytes together overflow 2^64");
    data_bytes = slots[index].end;
  }

  std::string text;
  try {
    text = header_text(tensors, slots, order, metadata);
  } catch (const json::exception&) {
    return refused(path, "a tensor's name or a metadata text is not UTF-8");
  }
  // Spaces fill the header, so that the data starts at a multiple of the largest element.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kSafetensorsMaxHeaderBytes) {
    return refused(path, fmt::format("a header of {} bytes; at most {}", text.size(), kSafetensorsMaxHeaderBytes));
  }
  const std::uint64_t header_bytes = text.size();
  const std::uint64_t data_at = kSafetensorsLengthBytes + header_bytes;
  if (data_bytes > UINT64_MAX - data_at) return refused(path, "the tensors' bytes together overflow 2^64");
  for (Slot& slot : slots) {
    slot.next += data_at;
    slot.end += data_at;
  }

  PINCH_ASSIGN(file, AtomicFile::create(path, data_at + data_bytes));
  PINCH_TRY(file.write(0, std::as_bytes(std::span(&header_bytes, 1))));
  PINCH_TRY(file.write(kSafetensorsLengthBytes, std::as_bytes(std::span(text))));
  return SafetensorsWriter(std::make_unique<AtomicFile>(std::move(file)), std::move(slots));
}

Result<void> SafetensorsWriter::append(std::size_t index, std::span<const std::byte> bytes) {
  if (index >= slots_.size()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("tensor {} of {}", index, slots_.size()),
                 "SafetensorsWriter"};
  }
  Slot& slot = slots_[index];
  if (bytes.size() > slot.end - slot.next) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} bytes for {}, which lacks {}", bytes.size(), quote_name(slot.name), slot.end - slot.next),
        "SafetensorsWriter"};
  }
  PINCH_TRY(file_->write(slot.next, bytes));
  slot.next += bytes.size();
  return {};
}

Result<void> SafetensorsWriter::finish() {
  for (const Slot& slot : slots_) {
    if (slot.next != slot.end) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} lacks {} bytes", quote_name(slot.name), slot.end - slot.next), "SafetensorsWriter"};
    }
  }
  return file_->commit();
}

}  // namespace pinch
