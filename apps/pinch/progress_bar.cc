#include "apps/pinch/progress_bar.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace pinch::cli {
namespace {

std::size_t terminal_columns() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

ProgressBar::ProgressBar() : on_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::show(double done, double total, std::string_view what) {
  if (!on_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  constexpr std::size_t kCells = 30;
  const double fraction = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 1.0;
  const auto filled = static_cast<std::size_t>(fraction * kCells);
  std::string line = fmt::format("[{}{}] {:3.0f}%  {}", std::string(filled, '#'), std::string(kCells - filled, '.'),
                                 100 * fraction, what);
  // A line that wraps could not be drawn over; a control character in a name would move the cursor.
  line.resize(std::min(line.size(), terminal_columns() - 1));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
}

}  // namespace pinch::cli
