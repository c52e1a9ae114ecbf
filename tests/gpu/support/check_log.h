// What the programs share that check every kernel: counts, failures, a row of CSV a check, and launches that must
// repeat their bits.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace pinch::gpu_test {

class CheckLog {
 public:
  /// `csv_path` may be null. Ends the program where it cannot be written.
  CheckLog(const char* csv_path, const char* header) {
    if (csv_path == nullptr) return;
    csv_ = std::fopen(csv_path, "w");
    if (csv_ == nullptr) {
      std::printf("cannot write %s: %s\n", csv_path, std::strerror(errno));
      std::exit(2);
    }
    std::fprintf(csv_, "%s\n", header);
  }
  ~CheckLog() {
    if (csv_ != nullptr) std::fclose(csv_);
  }
  CheckLog(const CheckLog&) = delete;
  CheckLog& operator=(const CheckLog&) = delete;

  void row(const std::string& text) {
    if (csv_ != nullptr) std::fprintf(csv_, "%s\n", text.c_str());
  }
  /// Counts it; the first are printed.
  void fail(const std::string& what) {
    if (failed++ < 40) std::printf("FAIL %s\n", what.c_str());
  }
  bool all_right() const { return failed == 0 && checks > 0; }

  int checks = 0, launches = 0, failed = 0;

 private:
  std::FILE* csv_ = nullptr;
};

struct CheckVerdict {
  const char* name = "ok";
  std::string why;  // empty: right so far
};

/// Launches `repeats` times. `launch` poisons the output, waits and returns why nothing ran, or nothing; `hash` is of
/// all bytes of the output, which must be the same each time.
template <class Launch, class Hash>
CheckVerdict launch_repeatedly(CheckLog& log, int repeats, Launch launch, Hash hash) {
  ++log.checks;
  std::uint64_t first = 0;
  for (int run = 0; run < repeats; ++run) {
    ++log.launches;
    if (std::string why = launch(); !why.empty()) return {"launch_failed", why};
    if (repeats == 1) break;
    const std::uint64_t now = hash();
    if (run == 0) first = now;
    if (now != first) return {"unstable", "run " + std::to_string(run) + " differs from the first"};
  }
  return {};
}

/// Exit status of a check of the checker.
inline int report_planted(int missed) {
  std::printf("planted faults missed: %d\n", missed);
  return missed != 0;
}

}  // namespace pinch::gpu_test
