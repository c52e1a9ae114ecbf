#include "src/core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "src/core/file_error.h"

namespace pinch {
namespace {

// The name behind a symbolic link: renaming over the link itself would cut it off from its target.
std::string resolved(const std::string& path) {
  char* target = ::realpath(path.c_str(), nullptr);
  if (target == nullptr) return path;
  std::string text = target;
  std::free(target);
  return text;
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, std::uint64_t size) {
  const std::string target = resolved(path);
  struct stat status = {};
  if (::stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "exists and is not a regular file; give the name of a file to write",
                 path};
  }
  if (size > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("a file of {} bytes is too large", size), path};
  }
  // A killed process leaves its file, and in a container the next one has the same id: then the next free name is
  // taken.
  std::string part;
  int file = -1;
  for (int attempt = 0; file < 0; ++attempt) {
    part = fmt::format("{}.part{}-{}", target, ::getpid(), attempt);
    file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && (errno != EEXIST || attempt == 1000)) {
      return os_error(path, "create (as a temporary file beside it)", errno);
    }
  }
  AtomicFile result(target, std::move(part), file);
  // Some file systems cannot reserve; they refuse a full disk at the write instead.
  if (size > 0 && ::fallocate(file, 0, 0, static_cast<off_t>(size)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    return os_error(path, fmt::format("reserve {} bytes", size), errno);
  }
  return result;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), part_(std::exchange(other.part_, {})), file_(std::exchange(other.file_, -1)) {}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!part_.empty()) ::unlink(part_.c_str());
}

Result<void> AtomicFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return os_error(path_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Result<void> AtomicFile::commit() {
  if (::fsync(file_) != 0) return os_error(path_, "flush to the disk", errno);
  if (::close(std::exchange(file_, -1)) != 0) return os_error(path_, "close", errno);
  if (::rename(part_.c_str(), path_.c_str()) != 0) return os_error(path_, "rename the temporary file", errno);
  part_.clear();
  // The name is durable once its folder is; a file system that cannot flush a folder still has the whole file.
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int handle = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle >= 0) {
    ::fsync(handle);
    ::close(handle);
  }
  return {};
}

Result<void> write_file(const std::string& path, std::string_view text) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    const auto close = [](std::FILE* file) { return std::fclose(file); };
    const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "wb"), close);
    if (!file) return os_error(path, "open", errno);
    const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
    if (!written || std::fflush(file.get()) != 0) return os_error(path, "write", errno);
    return {};
  }
  PINCH_ASSIGN(file, AtomicFile::create(path, 0));
  PINCH_TRY(file.write(0, std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace pinch
