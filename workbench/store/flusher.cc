#include "workbench/store/flusher.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "src/core/file_error.h"

namespace pinch::store {

Result<std::unique_ptr<Flusher>> Flusher::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return os_error(path, "be opened", errno);
  return std::unique_ptr<Flusher>(new Flusher(descriptor, path));
}

Flusher::Flusher(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)), thread_([this] { serve(); }) {}

Flusher::~Flusher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  ::close(descriptor_);
}

Result<void> Flusher::request() {
  const std::lock_guard lock(mutex_);
  requested_ = true;
  changed_.notify_all();
  return result();
}

Result<void> Flusher::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !requested_ && !busy_; });
  return result();
}

Result<void> Flusher::result() const {
  if (failed_ != 0) return os_error(path_, "be flushed to the disk", failed_);
  return {};
}

void Flusher::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return requested_ || ending_; });
    if (!requested_) return;
    requested_ = false;
    busy_ = true;
    lock.unlock();
    const int failed = ::fdatasync(descriptor_) == 0 ? 0 : errno;
    lock.lock();
    busy_ = false;
    if (failed != 0) failed_ = failed;
    changed_.notify_all();
  }
}

}  // namespace pinch::store
