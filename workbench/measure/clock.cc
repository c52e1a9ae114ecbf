#include "workbench/measure/clock.h"

#include <ctime>

namespace pinch::measure {

namespace {

double read_ns(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

}  // namespace

double SystemClock::wall_ns() {
  return read_ns(CLOCK_MONOTONIC);
}
double SystemClock::cpu_ns() {
  return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

}  // namespace pinch::measure
