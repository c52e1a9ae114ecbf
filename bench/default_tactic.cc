// What choosing the default tactic costs the caller: on a problem seen before (target: at most 50 ns), on one never
// seen (at most 1000 ns), and beside both the scan over the whole table that they replace.
//
//     build/bench/default_tactic            all families
//     build/bench/default_tactic --benchmark_filter=sm100
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <thread>

#include "pinch/families.h"
#include "src/tactics/scan.h"

namespace pinch {
namespace {

const Resources kResources{.sm_count = 148,
                           .threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))};

GemmProblem problem(std::int64_t m) {
  return {.m = m, .n = 4096, .k = 4096};
}

void repeated(benchmark::State& state, const TacticFamily& family) {
  for (auto _ : state) benchmark::DoNotOptimize(default_tactic(family, problem(64), kResources));
}

// The layers of a model in turn: eight shapes at 32 batch sizes.
void repeated_of_256(benchmark::State& state, const TacticFamily& family) {
  std::int64_t i = 0;
  for (auto _ : state) {
    GemmProblem layer = problem(1 + i % 32);
    layer.n += 256 * (i / 32 % 8);
    benchmark::DoNotOptimize(default_tactic(family, layer, kResources));
    ++i;
  }
}

// Every m is new, up to a large one and round again: the memo has long forgotten the first.
void never_seen(benchmark::State& state, const TacticFamily& family) {
  std::int64_t m = 0;
  for (auto _ : state) benchmark::DoNotOptimize(default_tactic(family, problem(1 + m++ % 1'000'000), kResources));
}

void scan_of_all(benchmark::State& state, const TacticFamily& family) {
  std::int64_t m = 0;
  const std::string_view model = family.models().front();
  for (auto _ : state) {
    benchmark::DoNotOptimize(scan_for_cheapest(family, model, problem(1 + m++ % 1'000'000), kResources));
  }
}

void register_all() {
  for (const TacticFamily* family : tactic_families()) {
    const std::string name(family->name());
    const auto add = [&](const char* what, void (*run)(benchmark::State&, const TacticFamily&)) {
      return benchmark::RegisterBenchmark((name + "/" + what).c_str(),
                                          [run, family](benchmark::State& state) { run(state, *family); });
    };
    add("repeated", repeated);
    add("repeated_of_256", repeated_of_256);
    add("repeated_by_threads", repeated)->Threads(2);
    add("never_seen", never_seen);
    add("scan_of_all", scan_of_all);
  }
}

}  // namespace
}  // namespace pinch

int main(int argc, char** argv) {
  pinch::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
