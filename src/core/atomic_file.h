// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pinch/result.h"

namespace pinch {

/// Writes to "PATH.part<pid>-<n>" beside the target; commit() makes it durable and gives it its name in one step,
/// replacing an earlier file of that name. Destroyed before commit(), it leaves nothing.
class AtomicFile {
 public:
  /// Reserves `size` bytes, so that a full disk is refused before any work. A symbolic link is followed to its target.
  /// Errors: kNotFound (no such folder); kIo (no permission, full disk, read-only); kInvalidArgument where the target
  /// exists and is no regular file, since renaming over a device or a folder would replace it.
  static Result<AtomicFile> create(const std::string& path, std::uint64_t size);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  /// Writes at a byte offset. Errors: kIo.
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Flushes to the disk, then renames, then flushes the folder. Call once. Errors: kIo; nothing is left then.
  Result<void> commit();

 private:
  AtomicFile(std::string path, std::string part, int file)
      : path_(std::move(path)), part_(std::move(part)), file_(file) {}

  std::string path_;
  std::string part_;  // empty once committed or moved from
  int file_ = -1;
};

/// Writes a file whole or not at all. A device or a pipe, such as /dev/null, is written to as it is. Errors: kNotFound,
/// kIo; kInvalidArgument for a folder.
Result<void> write_file(const std::string& path, std::string_view text);

}  // namespace pinch
