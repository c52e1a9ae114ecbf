#include "workbench/measure/clock.h"

#include <charconv>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>

namespace pinch::measure {

namespace {

/// 0 where the clock cannot be read, as when its thread has ended.
double read_ns(clockid_t id) {
  timespec now{};
  if (clock_gettime(id, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// CPU clock of a thread by its kernel id: the encoding of clock_getcpuclockid(3), for one thread and scheduled time.
clockid_t cpu_clock_of(int thread) {
  constexpr int kPerThread = 4;
  constexpr int kScheduledTime = 2;
  return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | kPerThread | kScheduledTime);
}

}  // namespace

double SystemClock::wall_ns() {
  return read_ns(CLOCK_MONOTONIC);
}

double SystemClock::cpu_ns() {
  if (threads_.empty()) ready();
  double sum = 0;
  for (const int thread : threads_) sum += read_ns(cpu_clock_of(thread));
  return sum;
}

void SystemClock::ready() {
  threads_.clear();
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", unreadable)) {
    const std::string name = entry.path().filename().string();
    int thread = 0;
    const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), thread);
    if (status == std::errc() && end == name.data() + name.size()) threads_.push_back(thread);
  }
}

}  // namespace pinch::measure
