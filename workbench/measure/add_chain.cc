#include "workbench/measure/add_chain.h"

#include <algorithm>
#include <limits>

namespace pinch::measure {

namespace {

constexpr std::int64_t kUnroll = 32;
constexpr std::int64_t kAdditions = 32768;  // 10 us at 3.3 GHz: 300 times the cost of reading the clock
constexpr int kRepeats = 3;

}  // namespace

std::uint64_t run_add_chain(std::int64_t additions) {
  std::uint64_t sum = 0;
  // A register operand, hidden from the compiler: recent cores fold chains of `add reg, immediate` at register
  // renaming.
  std::uint64_t step = 1;
  for (std::int64_t done = 0; done < additions; done += kUnroll) {
#if defined(__x86_64__)
#define PINCH_ADD_4 "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
    asm volatile(PINCH_ADD_4 PINCH_ADD_4 PINCH_ADD_4 PINCH_ADD_4 PINCH_ADD_4 PINCH_ADD_4 PINCH_ADD_4 PINCH_ADD_4
                 : "+r"(sum)
                 : "r"(step)
                 : "cc");
#undef PINCH_ADD_4
#else
    for (std::int64_t i = 0; i < kUnroll; ++i) {
      sum += step;
      asm volatile("" : "+r"(sum), "+r"(step));
    }
#endif
  }
  return sum;
}

double AddChain::ghz() {
  double fastest_ns = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    const double start = clock_.wall_ns();
    run_add_chain(kAdditions);
    fastest_ns = std::min(fastest_ns, clock_.wall_ns() - start);
  }
  return static_cast<double>(kAdditions) / fastest_ns;
}

}  // namespace pinch::measure
