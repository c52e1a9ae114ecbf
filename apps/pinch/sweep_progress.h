// How far a sweep is, on a terminal.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <string>

#include "apps/pinch/progress_bar.h"

namespace pinch::cli {

/// "done/total, about 12 s left: tile=16,layout=row"
class SweepProgress {
 public:
  void show(std::size_t done, std::size_t total, const std::string& what) {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const double left = done == 0 ? 0 : elapsed / static_cast<double>(done) * static_cast<double>(total - done);
    bar_.show(static_cast<double>(done), static_cast<double>(total),
              fmt::format("{}/{}, about {:.0f} s left: {}", done, total, left, what));
  }

 private:
  ProgressBar bar_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace pinch::cli
