// How close the bound and the simulator come to loops timed on a device. Prints the error on loops that nothing was
// fitted to, Kendall's tau, and every bound above its measurement; exit code 1 where a target is missed. Loops of one
// kind of instruction set the rates of the machine model, so none of them is held out: what is, is every second loop of
// several kinds.
//
// Rows of one and two warps, on as many sub-partitions, are held against their bounds and their error is printed apart:
// latencies were read off the chains among them. With nvdisasm the bound is at least the dependency bound, which needs
// operands.
//
//     sass_accuracy CUBIN CSV [--all] [--disassembler PATH]
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bench/sass_corpus/measurements.h"
#include "workbench/sass/analysis.h"
#include "workbench/sass/input.h"

namespace {

using namespace pinch::sass;

constexpr double kMaxMeanError = 0.10, kMinTau = 0.8, kMaxBoundExcess = 0.02;

struct Point {
  std::string loop;
  int warps = 0, sub_partitions = kSubPartitions;  // warps of one sub-partition
  double measured = 0, simulated = 0, greedy = 0, fair = 0, bound = 0;
  bool held_out = false;
  [[nodiscard]] double error() const { return simulated / measured - 1; }
};

// Loops of one kind of instruction, by the names that bench/sass_corpus/generate.py gives them: rates were read off
// them.
bool sets_rates(const std::string& loop) {
  for (const char* kind : {"_wide", "_chain", "_ilp", "hgmma_n"}) {
    if (loop.find(kind) != std::string::npos) return true;
  }
  return false;
}

// Every second loop of several kinds by a hash of its name: a choice that no result can influence.
bool held_out(const std::string& loop) {
  if (sets_rates(loop)) return false;
  std::uint32_t hash = 2166136261u;
  for (const char c : loop) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return (hash >> 8 & 1) != 0;
}

double kendall_tau(const std::vector<Point>& points) {
  double agree = 0, differ = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double product = (points[i].measured - points[j].measured) * (points[i].simulated - points[j].simulated);
      agree += product > 0;
      differ += product < 0;
    }
  }
  return (agree - differ) / std::max(1.0, agree + differ);
}

double mean_error(const std::vector<Point>& points, double Point::*predicted) {
  double sum = 0;
  for (const Point& p : points) sum += std::abs(p.*predicted / p.measured - 1);
  return sum / std::max<double>(1, static_cast<double>(points.size()));
}

// The loop that is timed: the longest of the kernel.
const LoopReport* timed_loop(const KernelReport& report) {
  const LoopReport* longest = nullptr;
  for (const LoopReport& loop : report.loops) {
    if (longest == nullptr || loop.instructions > longest->instructions) longest = &loop;
  }
  return longest;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: sass_accuracy CUBIN CSV [--all] [--disassembler PATH]\n");
    return 2;
  }
  bool all = false;
  InputOptions input;
  input.disassembler = "none";  // the same result on every machine
  for (int i = 3; i < argc; ++i) {
    all |= std::string(argv[i]) == "--all";
    if (std::string(argv[i]) == "--disassembler" && i + 1 < argc) input.disassembler = argv[++i];
  }
  const auto program = read_program(argv[1], input);
  if (!program.ok()) {
    fmt::print(stderr, "{}\n", program.error().message());
    return 3;
  }
  const auto measured = corpus::read_measurements(argv[2]);
  std::vector<Point> fit, test, few;
  int above = 0, loops = 0;
  double worst_excess = -1;
  for (const auto& [name, by_warps] : measured) {
    const auto kernel = std::find_if(program->kernels.begin(), program->kernels.end(),
                                     [&wanted = name](const Kernel& k) { return k.name == wanted; });
    if (kernel == program->kernels.end()) continue;
    ++loops;
    for (const auto& [warps, cycles] : by_warps) {
      AnalysisOptions options;
      options.sub_partitions = std::min(warps, kSubPartitions);
      if (warps % options.sub_partitions != 0) {
        fmt::print(stderr, "{}: {} warps do not spread evenly over 4 sub-partitions\n", name, warps);
        return 1;
      }
      options.warps = warps / options.sub_partitions;
      const auto report = analyse_kernel(*kernel, nullptr, options);
      const LoopReport* loop = report.ok() ? timed_loop(*report) : nullptr;
      if (loop == nullptr) {
        fmt::print(stderr, "{}: no loop found\n", name);
        return 1;
      }
      Point point{name,
                  options.warps,
                  options.sub_partitions,
                  cycles,
                  *loop->simulated_cycles,
                  *loop->greedy_cycles,
                  *loop->fair_cycles,
                  loop->least_cycles(),
                  held_out(name)};
      const double excess = point.bound / point.measured - 1;
      worst_excess = std::max(worst_excess, excess);
      above += excess > kMaxBoundExcess;
      if (all || excess > kMaxBoundExcess) {
        fmt::print("{:<24} W {:>2} on {}  measured {:8.1f}  simulated {:8.1f} ({:+6.1f}%)  bound {:8.1f} by {}{}{}\n",
                   name, point.warps, point.sub_partitions, point.measured, point.simulated, 100 * point.error(),
                   point.bound, name_of(loop->bound_by), point.held_out ? "  held out" : "",
                   excess > kMaxBoundExcess ? "  ABOVE" : "");
      }
      (point.sub_partitions < kSubPartitions ? few : point.held_out ? test : fit).push_back(point);
    }
  }
  fmt::print("policies on the loops to fit: greedy {:.2f}%, fair {:.2f}%\n", 100 * mean_error(fit, &Point::greedy),
             100 * mean_error(fit, &Point::fair));
  const double error = mean_error(test, &Point::simulated), tau = kendall_tau(test);
  fmt::print(
      "{} loops, {} points: {} to fit (mean error {:.1f}%), {} held out, none of them of loops with one kind of "
      "instruction, which set the rates\n",
      loops, fit.size() + test.size(), fit.size(), 100 * mean_error(fit, &Point::simulated), test.size());
  fmt::print("held out: mean absolute error {:.2f}% (target <= {:.0f}%), Kendall tau {:.3f} (target >= {})\n",
             100 * error, 100 * kMaxMeanError, tau, kMinTau);
  fmt::print("one and two warps: {} points, mean absolute error {:.2f}%\n", few.size(),
             100 * mean_error(few, &Point::simulated));
  fmt::print("bound: {} of {} points more than {:.0f}% above the measurement; worst {:+.2f}%\n", above,
             fit.size() + test.size() + few.size(), 100 * kMaxBoundExcess, 100 * worst_excess);
  return error <= kMaxMeanError && tau >= kMinTau && above == 0 ? 0 : 1;
}
