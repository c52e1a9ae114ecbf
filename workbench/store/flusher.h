// Brings a file to the disk behind its writer's back: on a busy disk one fdatasync takes longer than a whole trial.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "pinch/result.h"

namespace pinch::store {

/// Requests that come while the disk is at work are served together by the next fdatasync.
class Flusher {
 public:
  /// Errors: kNotFound, kIo.
  static Result<std::unique_ptr<Flusher>> open(const std::string& path);
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;
  ~Flusher();

  /// What was written before this call will reach the disk. Errors: kIo, of an earlier request that the disk refused.
  Result<void> request();
  /// Waits until everything requested is on the disk. Errors: kIo.
  Result<void> wait();

 private:
  Flusher(int descriptor, std::string path);
  void serve();
  [[nodiscard]] Result<void> result() const;

  int descriptor_;
  std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool requested_ = false, busy_ = false, ending_ = false;
  int failed_ = 0;  // errno
  std::thread thread_;
};

}  // namespace pinch::store
