// Instructions a second that are read and analysed on one core, and memory an instruction. Prints both; exit code 1
// where a target is missed.
//
//     sass_throughput FILE [REPEATS]     FILE: disassembly text or a cubin
//
// Time: 25 rounds of FILE read and analysed REPEATS times. Memory: what the peak grows by while the programs
// and reports of 100 readings are all held, so that tables which are loaded once do not count as instructions.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "workbench/sass/analysis.h"
#include "workbench/sass/input.h"

namespace {

using namespace pinch::sass;

constexpr double kMinInstructionsPerSecond = 1e6, kMaxBytesPerInstruction = 1024;
constexpr std::size_t kHeld = 100;
constexpr int kRounds = 25;

double peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: sass_throughput FILE [REPEATS]\n");
    return 2;
  }
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 20;
  InputOptions input;
  input.disassembler = "none";  // nvdisasm's own time is not ours
  const AnalysisOptions options;
  struct Analysed {
    std::unique_ptr<Program> program;
    std::vector<KernelReport> reports;
  };
  const auto once = [&]() -> Analysed {
    auto program = read_program(argv[1], input);
    if (!program.ok()) {
      fmt::print(stderr, "{}\n", program.error().message());
      std::exit(3);
    }
    auto held = std::make_unique<Program>(std::move(*program));
    auto reports = analyse(*held, options);
    if (!reports.ok()) {
      fmt::print(stderr, "{}\n", reports.error().message());
      std::exit(3);
    }
    return {std::move(held), std::move(*reports)};
  };
  std::size_t instructions = 0;
  const Analysed first = once();
  for (const Kernel& kernel : first.program->kernels) instructions += kernel.instructions.size();
  // Another process on the core can only slow a round down: the fastest tells what the code does, the median what one
  // gets.
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) once();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rates.push_back(static_cast<double>(instructions) * repeats / seconds);
  }
  std::sort(rates.begin(), rates.end());
  const double fastest = rates.back(), median = rates[rates.size() / 2];
  const double before = peak_bytes();
  std::vector<Analysed> all;
  while (all.size() < kHeld) all.push_back(once());
  const double bytes = (peak_bytes() - before) / (static_cast<double>(instructions) * kHeld);
  fmt::print(
      "{}: {} instructions; {:.2f} million instructions a second on one core in the fastest of {} rounds, {:.2f} in "
      "the "
      "median (target >= {:g}); {:.0f} bytes an instruction at the peak (target <= {:g})\n",
      argv[1], instructions, fastest / 1e6, kRounds, median / 1e6, kMinInstructionsPerSecond / 1e6, bytes,
      kMaxBytesPerInstruction);
  return fastest >= kMinInstructionsPerSecond && bytes <= kMaxBytesPerInstruction ? 0 : 1;
}
