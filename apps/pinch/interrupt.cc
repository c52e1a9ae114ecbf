#include "apps/pinch/interrupt.h"

#include <csignal>

namespace pinch::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

extern "C" void note_interrupt(int) {
  interrupted = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : kSignals) ::sigaction(signal, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

bool InterruptGuard::requested() const {
  return interrupted != 0;
}

}  // namespace pinch::cli
