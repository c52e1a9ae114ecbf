// Reading and writing .safetensors files.
//
// Layout: 8 bytes header length N (little-endian), N bytes of JSON, then the tensors' bytes without gaps. Source: the
// format section of the safetensors documentation. Every break of it is refused by name with the byte of the file where
// it shows:
//
//   truncated_length       the file ends inside the first 8 bytes
//   header_too_long        N passes 100,000,000 or the end of the file
//   header_not_object      the header's first byte is not '{'
//   invalid_json           the header is not JSON in UTF-8
//   unexpected_value       a value of another kind than the format has there, or a field it does not know
//   duplicate_key          a tensor, a metadata entry or a field appears twice (a JSON reader that keeps the last hides
//   it) missing_field          a tensor without dtype, shape or data_offsets unknown_dtype          a dtype the format
//   does not define shape_overflow         sizes below 0, or whose product or bytes pass 2^63 - 1, or do not fill whole
//   bytes offsets_reversed       a tensor ends before it begins offsets_out_of_range   a tensor ends after the file
//   size_mismatch          dtype x shape is not the number of bytes between the offsets
//   offsets_overlap        two tensors share bytes
//   offsets_gap            bytes that belong to no tensor
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pinch/result.h"
#include "pinch/tensor.h"

namespace pinch {

class AtomicFile;
class MappedFile;

/// The file's own "__metadata__": names and texts in the order of the file.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// Where one tensor lies. `begin` and `end` count bytes from the start of the data, as in the file's data_offsets.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// A checked .safetensors file, mapped read only. Copies share the mapping; views live as long as any of them.
class SafetensorsFile {
 public:
  /// Maps and checks a file. Errors: kNotFound, kIo (see MappedFile), kCorrupt by the names above.
  static Result<SafetensorsFile> open(const std::string& path);

  /// Checks a file that lies in memory, which must outlive the result; `name` stands for the path in messages.
  static Result<SafetensorsFile> parse(std::span<const std::byte> file, std::string name);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }

  /// Every tensor, in the order of their bytes.
  [[nodiscard]] std::span<const TensorInfo> tensors() const { return tensors_; }

  /// The tensor of this name, or null.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;

  /// Bytes, type and shape of one of tensors().
  [[nodiscard]] TensorView view(const TensorInfo& tensor) const;

  /// The same by name. Errors: kNotFound, offering the nearest names of the file.
  [[nodiscard]] Result<TensorView> tensor(std::string_view name) const;

  /// Gives the memory of bytes that were read back to the system; reading them again is correct, and slower.
  void release(std::span<const std::byte> bytes) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  std::shared_ptr<const MappedFile> mapping_;  // null where parse() was given memory
  std::span<const std::byte> data_;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices of tensors_ in the order of their names
};

/// What the writer must know of a tensor before its bytes come.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

/// Writes a .safetensors file as the tensors' bytes come, in any interleaving and holding none of them. The file
/// appears under its name, whole and flushed to the disk, at finish(); without it nothing is left. Tensors lie in the
/// file by descending element size, so that each is aligned to its elements.
class SafetensorsWriter {
 public:
  /// Reserves the whole file. Errors: kInvalidArgument for a duplicate or reserved name ("__metadata__"), a duplicate
  /// metadata entry, text that is not UTF-8, an impossible shape, a header over 100,000,000 bytes, or a target that is
  /// not a file; kNotFound, kIo.
  static Result<SafetensorsWriter> create(const std::string& path, std::vector<TensorSpec> tensors,
                                          const Metadata& metadata = {});

  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  /// Continues tensor `index` (its place in `tensors`). Errors: kInvalidArgument past the tensor's end; kIo.
  Result<void> append(std::size_t index, std::span<const std::byte> bytes);

  /// Checks that every tensor is complete, then makes the file durable and names it. Errors: kInvalidArgument naming an
  /// incomplete tensor; kIo.
  Result<void> finish();

 private:
  struct Slot {
    std::string name;
    std::uint64_t next = 0;  // file offset of the byte to write next
    std::uint64_t end = 0;
  };
  SafetensorsWriter(std::unique_ptr<AtomicFile> file, std::vector<Slot> slots);

  std::unique_ptr<AtomicFile> file_;
  std::vector<Slot> slots_;
};

}  // namespace pinch
