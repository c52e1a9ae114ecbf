// A file mapped into memory, read only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "pinch/result.h"

namespace pinch {

/// Owns the mapping of one regular file. Pages come in as they are read; another process that shortens the file
/// meanwhile ends this one with SIGBUS, as with every mapping.
class MappedFile {
 public:
  /// Errors: kNotFound; kIo where it cannot be opened, is no regular file (pipes and devices have no length) or cannot
  /// be mapped.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  /// Gives the pages that lie wholly inside `range` back to the system; reading them again brings them in again.
  void release(std::span<const std::byte> range) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace pinch
