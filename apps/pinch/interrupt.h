// Ctrl-C as an answer instead of an end: the work stops where it stands and cleans up.
#pragma once

namespace pinch::cli {

/// While one lives, the first SIGINT, SIGTERM or SIGHUP is noted; a second one ends the program at once.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  [[nodiscard]] bool requested() const;
};

}  // namespace pinch::cli
