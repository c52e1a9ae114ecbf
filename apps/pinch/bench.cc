// pinch bench: ours beside other libraries.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/cli.h"
#include "apps/pinch/gemm_options.h"
#include "apps/pinch/interrupt.h"
#include "apps/pinch/measure_options.h"
#include "apps/pinch/progress_bar.h"
#include "workbench/ladder/gemm_bench.h"
#include "workbench/report/bench_report.h"

namespace pinch::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kBenchExamples = R"(Examples:
  pinch bench gemm --m 1,8,512 --n 4096 --k 4096
  pinch bench gemm --m 1 --n 4096 --k 4096 --tactic stream.avx2.1x16.along_m.all
  pinch bench gemm --m 32 --n 4096 --k 4096 --all --no-peers --json -
  pinch bench gemm --device cuda --m 1,128 --n 4096 --k 4096

Peers work on weights dequantised beforehand: OpenBLAS sgemm in FP32, oneDNN in bf16, as dequantised and prepacked. oneDNN
takes the best instruction set it finds; ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 limits it.

On a CUDA device the peer is cuBLAS on bf16 weights (PINCH_CUBLAS=/path/to/libcublas.so.13 names it), and one read of the
weights' bytes and an empty kernel are timed beside: every sample is one graph replay between two events, after 256 MiB of
other bytes were read (cold) or a replay that is not timed (warm).)";

struct BenchOptions {
  GemmOptionGroup gemm;
  MeasureOptionGroup measure;
  std::vector<std::string> tactics;
  bool all = false;
  bool no_peers = false;
  JsonOption json;
};

int bench(BenchOptions& options) {
  const auto policy = options.measure.policy(options.gemm.on_cuda());
  if (!policy) return report(policy.error());
  const auto target = options.gemm.target();
  if (!target) return report(target.error());
  auto weights = options.gemm.weights();
  if (!weights) return report(weights.error());

  const InterruptGuard interrupt;
  ladder::GemmBench benchmark(**target, std::move(*weights));
  auto documents = ordered_json::array();
  bool wrong = false;
  for (const std::int64_t m : options.gemm.rows()) {
    ladder::BenchRequest request;
    request.m = m;
    request.output = options.gemm.output();
    request.tactics = options.tactics;
    request.all = options.all;
    request.rivals = !options.no_peers;
    request.policy = *policy;
    request.weights_name = options.gemm.weights_name();
    auto bar = std::make_unique<ProgressBar>();
    ladder::BenchHooks hooks;
    hooks.stop_requested = [&] { return interrupt.requested(); };
    hooks.round_ended = [&](const measure::RoundReport& progress) {
      bar->show(progress.elapsed_s, policy->budget_s, fmt::format("m {}: round {}", m, progress.round + 1));
    };
    const auto result = benchmark.run(request, hooks);
    bar.reset();
    if (!result) return report(result.error());
    fmt::print(options.json.on_stdout() ? stderr : stdout, "{}\n", report::to_table(*result));
    std::fflush(stdout);
    documents.push_back(report::to_json(*result));
    for (const ladder::BenchRow& row : result->rows) {
      wrong = wrong || (row.kind == ladder::RowKind::kTactic && row.verdict == measure::Verdict::kWrong);
    }
    if (interrupt.requested()) break;
  }
  const auto written = options.json.write(documents.size() == 1 ? documents.front() : documents);
  if (!written) return report(written.error());
  if (interrupt.requested()) return kSignalled;
  return wrong ? kFailed : kOk;
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("bench", "Time a kernel's default, one tactic or all, beside other libraries");
  command->require_subcommand(0, 1);
  command->callback([command] {
    if (command->get_subcommands().empty()) throw CLI::RequiredError("A subject to benchmark (gemm)");
  });
  auto* gemm = command->add_subcommand("gemm", "bf16 activations times FP4 weights");
  gemm->footer(kBenchExamples);
  auto options = std::make_shared<BenchOptions>();
  options->gemm.add_to(*gemm);
  gemm->add_option("--tactic", options->tactics, "Time this tactic too (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  gemm->add_flag("--all", options->all, "Time every legal tactic");
  gemm->add_flag("--no-peers", options->no_peers, "Leave the other libraries and yardsticks out");
  options->measure.add_to(*gemm);
  options->json.add_to(*gemm);
  gemm->callback([options, &status] { status = bench(*options); });
}

}  // namespace pinch::cli
