// pinch bench: ours beside other libraries.
#include <fmt/core.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/pinch/attention_options.h"
#include "apps/pinch/cli.h"
#include "apps/pinch/gemm_options.h"
#include "apps/pinch/interrupt.h"
#include "apps/pinch/measure_options.h"
#include "apps/pinch/progress_bar.h"
#include "workbench/ladder/bench.h"
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

constexpr const char* kBenchAttentionExamples = R"(Examples:
  pinch bench attention --heads 16 --seq 1024
  pinch bench attention --heads 16 --seq 1024 --causal --all --json -
  pinch bench attention --heads 16 --seq 1024 --isa avx512_bf16
  pinch bench attention --device cuda --batch 4 --heads 16 --seq 8192 --pv fp8

On a CUDA device an empty kernel is timed beside; bench/attention_peers.py times cuDNN and FlashAttention from Python.)";

/// What every subject shares.
struct BenchOptions {
  MeasureOptionGroup measure;
  std::vector<std::string> tactics;
  bool all = false;
  bool no_peers = false;
  JsonOption json;

  void add_to(CLI::App& command) {
    command.add_option("--tactic", tactics, "Time this tactic too (repeatable)")
        ->type_name("NAME")
        ->allow_extra_args(false);
    command.add_flag("--all", all, "Time every legal tactic");
    command.add_flag("--no-peers", no_peers, "Leave the other libraries and yardsticks out");
    measure.add_to(command);
    json.add_to(command);
  }
};

int bench_all(std::span<const std::unique_ptr<ladder::Task>> tasks, const BenchOptions& options,
              const measure::Policy& policy) {
  const InterruptGuard interrupt;
  auto documents = ordered_json::array();
  bool wrong = false;
  for (const auto& task : tasks) {
    auto bar = std::make_unique<ProgressBar>();
    ladder::BenchHooks hooks;
    hooks.stop_requested = [&] { return interrupt.requested(); };
    hooks.round_ended = [&](const measure::RoundReport& progress) {
      bar->show(progress.elapsed_s, policy.budget_s,
                fmt::format("{}: round {}", task->work().heading, progress.round + 1));
    };
    const auto result = ladder::bench(*task, {options.tactics, options.all, !options.no_peers, policy}, hooks);
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

int bench_gemm(GemmOptionGroup& gemm, const BenchOptions& options) {
  const auto policy = options.measure.policy(gemm.on_cuda());
  if (!policy) return report(policy.error());
  const auto tasks = gemm.tasks();
  if (!tasks) return report(tasks.error());
  return bench_all(*tasks, options, *policy);
}

int bench_attention(AttentionOptionGroup& attention, const BenchOptions& options) {
  const auto policy = options.measure.policy(attention.on_cuda());
  if (!policy) return report(policy.error());
  auto task = attention.task();
  if (!task) return report(task.error());
  return bench_all({&*task, 1}, options, *policy);
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("bench", "Time a kernel's default, one tactic or all, beside other libraries");
  command->require_subcommand(0, 1);
  command->callback([command] {
    if (command->get_subcommands().empty()) throw CLI::RequiredError("A subject to benchmark (gemm, attention)");
  });
  auto* gemm = command->add_subcommand("gemm", "bf16 activations times FP4 weights");
  gemm->footer(kBenchExamples);
  auto weights = std::make_shared<GemmOptionGroup>();
  auto options = std::make_shared<BenchOptions>();
  weights->add_to(*gemm);
  options->add_to(*gemm);
  gemm->callback([weights, options, &status] { status = bench_gemm(*weights, *options); });

  auto* attention = command->add_subcommand("attention", "Attention forward");
  attention->footer(kBenchAttentionExamples);
  auto problem = std::make_shared<AttentionOptionGroup>();
  auto attention_options = std::make_shared<BenchOptions>();
  problem->add_to(*attention);
  attention_options->add_to(*attention);
  attention->callback(
      [problem, attention_options, &status] { status = bench_attention(*problem, *attention_options); });
}

}  // namespace pinch::cli
