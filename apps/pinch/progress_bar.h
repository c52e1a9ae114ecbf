// One line on stderr that shows how far the work is; nothing where stderr is no terminal.
#pragma once

#include <chrono>
#include <string_view>

namespace pinch::cli {

class ProgressBar {
 public:
  ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();  ///< takes the line away

  /// `done` of `total`, at what is named; drawn at most ten times a second.
  void show(double done, double total, std::string_view what);

 private:
  bool on_terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace pinch::cli
