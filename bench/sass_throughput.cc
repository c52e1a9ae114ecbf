// Instructions a second that are read and analysed on one core, and memory an instruction. Prints both; exit code 1
// where a target is missed.
//
//     sass_throughput FILE [REPEATS]     FILE: disassembly text or a cubin, read and analysed REPEATS times as one
//     program
#include <fmt/core.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "workbench/sass/analysis.h"
#include "workbench/sass/input.h"

namespace {

using namespace pinch::sass;

constexpr double kMinInstructionsPerSecond = 1e6, kMaxBytesPerInstruction = 1024;

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
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 200;
  InputOptions input;
  input.disassembler = "none";  // nvdisasm's own time is not ours
  const AnalysisOptions options;
  const auto once = [&]() -> std::size_t {
    const auto program = read_program(argv[1], input);
    if (!program.ok()) {
      fmt::print(stderr, "{}\n", program.error().message());
      std::exit(3);
    }
    const auto reports = analyse(*program, options);
    if (!reports.ok()) {
      fmt::print(stderr, "{}\n", reports.error().message());
      std::exit(3);
    }
    std::size_t count = 0;
    for (const Kernel& kernel : program->kernels) count += kernel.instructions.size();
    return count;
  };
  const double before = peak_bytes();
  const std::size_t instructions = once();
  const double bytes = (peak_bytes() - before) / static_cast<double>(instructions);
  const auto start = std::chrono::steady_clock::now();
  std::size_t total = 0;
  for (int i = 0; i < repeats; ++i) total += once();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double rate = static_cast<double>(total) / seconds;
  fmt::print(
      "{}: {} instructions; {:.2f} million instructions a second on one core (target >= {:g}); {:.0f} bytes an "
      "instruction at the peak (target <= {:g})\n",
      argv[1], instructions, rate / 1e6, kMinInstructionsPerSecond / 1e6, bytes, kMaxBytesPerInstruction);
  return rate >= kMinInstructionsPerSecond && bytes <= kMaxBytesPerInstruction ? 0 : 1;
}
