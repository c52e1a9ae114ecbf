#include "src/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "src/core/file_error.h"

namespace pinch {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe would otherwise wait for its writer before it can be refused.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return os_error(path, "open", errno);
  struct Close {
    int file;
    ~Close() { ::close(file); }
  } close{file};

  struct stat status = {};
  if (::fstat(file, &status) != 0) return os_error(path, "read its size", errno);
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::kIo, "not a regular file; give a file that can be mapped", path};

  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = nullptr;
  if (size > 0) {  // a mapping of no bytes is an error of its own
    address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (address == MAP_FAILED) return os_error(path, "map into memory", errno);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<const std::byte*>(address), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::span<const std::byte> range) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<std::uintptr_t>(range.data()) + page - 1) / page * page;
  const auto last = reinterpret_cast<std::uintptr_t>(range.data() + range.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace pinch
