// Times the sm_90a attention kernels on a GPU: warm, one replay of a captured launch at a time, all in turn.
// Usage: attention_time CSV [--regimes] [--samples N] [--dim D] [--heads N] [--only TEXT] [--skip TEXT]... [SEQ...]
// b = 4, h = 16, full and causal. Every compiled kernel of the dim, unlisted ones too, with each launch knob worth a
// look. Every sample is in the CSV; TFLOP/s counts visible pairs alone, preparation of fp8 and fp4 operands included
// ("both") or not
// ("attend"); "prepare" is that alone, in microseconds. Exit status: 0, 77 skipped.
// An H200 may draw 700 W: it runs at full clocks for some 60 ms, then at what that allows. --regimes times a kernel of
// each kind (tile_kv 128, no split; or what --only names) by itself in both: the first replays after a pause, and those
// after half a second; the samples of each median are in the CSV.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/attention/sm90/backend.h"
#include "tests/gpu/support/attention_data.h"
#include "workbench/cuda/timer.h"

namespace pinch::gpu_test {
namespace {

using namespace attention;
using sm90::BuiltKernel, sm90::Part, sm90::Tactic;

struct Timed {
  const BuiltKernel* kernel;
  Tactic tactic;
  Part part;
  cuda::Graph graph;
  std::vector<double> samples_us = {};
  std::vector<double> burst_us = {}, sustained_us = {};  // of --regimes
};

const char* name(Part part) {
  return part == Part::kAttend ? "attend" : part == Part::kBoth ? "both" : "prepare";
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

std::string join(const std::vector<double>& samples) {
  std::string text;
  char number[32];
  for (const double sample : samples) {
    std::snprintf(number, sizeof number, "%s%.2f", text.empty() ? "" : ";", sample);
    text += number;
  }
  return text;
}

bool skipped(const std::string& name, const std::vector<std::string>& skips) {
  return std::any_of(skips.begin(), skips.end(),
                     [&](const std::string& text) { return name.find(text) != std::string::npos; });
}

/// The first 7 replays after a pause, and those in the last third of half a second.
void time_alone(const cuda::Timer& timer, Timed& t) {
  using Clock = std::chrono::steady_clock;
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  const auto next = [&] { t.samples_us.push_back(require(timer.warm_ns(t.graph), "timing") / 1e3); };
  for (int i = 0; i < 7; ++i) next();
  t.burst_us = t.samples_us;
  for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::milliseconds(450);) next();
  const auto last = static_cast<std::ptrdiff_t>(t.samples_us.size() / 3);
  t.sustained_us = {t.samples_us.end() - last, t.samples_us.end()};
}

int run(int argc, char** argv) {
  int samples = 9, dim = 128, heads = 0;
  std::vector<int> seqs;
  const char* csv_path = nullptr;
  bool regimes = false;
  std::string only;                // what a kernel's "qk pv tactic" must contain
  std::vector<std::string> skips;  // and must not
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--samples") == 0 && i + 1 < argc) {
      samples = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--dim") == 0 && i + 1 < argc) {
      dim = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--regimes") == 0) {
      regimes = true;
    } else if (std::strcmp(argv[i], "--heads") == 0 && i + 1 < argc) {
      heads = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else if (std::strcmp(argv[i], "--skip") == 0 && i + 1 < argc) {
      skips.push_back(argv[++i]);
    } else if (csv_path == nullptr) {
      csv_path = argv[i];
    } else {
      seqs.push_back(std::atoi(argv[i]));
    }
  }
  if (csv_path == nullptr || samples < 3) {
    std::printf(
        "usage: attention_time CSV [--regimes] [--samples N] [--dim D] [--heads N] [--only TEXT] [--skip TEXT]... "
        "[SEQ...]\n");
    return 2;
  }
  if (seqs.empty()) seqs = {1024, 2048, 4096, 8192, 16384};
  skip_without_device();
  std::FILE* csv = std::fopen(csv_path, "w");
  if (csv == nullptr) {
    std::printf("cannot write %s\n", csv_path);
    return 2;
  }
  std::fprintf(csv, "%s\n",
               regimes ? "seq,causal,qk,pv,part,tactic,burst_tflops,burst_us,sustained_tflops,sustained_us,"
                         "burst_samples_us,sustained_samples_us"
                       : "batch,heads,seq,dim,causal,qk,pv,part,tactic,tflops,median_us,samples_us");
  cuda::Timer timer = require(cuda::Timer::create(0), "timer");
  const auto& facts = require(sm90::device_facts(0), "device");
  for (const int seq : seqs) {
    for (const bool causal : {false, true}) {
      std::vector<Timed> timed;
      std::vector<AttentionData> data;  // one a kind: the workspaces differ
      data.reserve(8);
      const auto data_of = [&](const BuiltKernel& kernel) -> AttentionData& {
        for (AttentionData& d : data)
          if (d.shape.problem.pv == kernel.kind.pv && d.shape.problem.qk == kernel.kind.qk) return d;
        AttentionShape shape;
        shape.problem = {4, 16, 16, seq, seq, dim, causal, kernel.kind.pv, kernel.kind.qk, OutputType::kBf16};
        return data.emplace_back(shape, 11);
      };
      for (const BuiltKernel& kernel : sm90::built_kernels()) {
        if (kernel.kind.dim != dim || kernel.tile.read_ahead > 0) continue;
        for (const int threshold : {0, 8}) {
          for (const sm90::Schedule schedule : {sm90::Schedule::kStatic, sm90::Schedule::kDynamic}) {
            const Tactic tactic{kernel.tile, threshold, schedule, heads};
            const std::string name = std::string(pinch::to_string(kernel.kind.qk)) + " " +
                                     std::string(pinch::to_string(kernel.kind.pv)) + " " + sm90::to_string(tactic);
            if (name.find(only) == std::string::npos || skipped(name, skips)) continue;
            const auto& tile = kernel.tile;
            if (regimes && schedule == sm90::Schedule::kStatic) continue;
            if (regimes && only.empty() && (tile.tile_kv != 128 || tile.chunks > 1 || tile.exp2 != Exp2::kHardware))
              continue;
            if (!sm90::illegal(kernel.kind, tactic).empty()) continue;
            AttentionData& d = data_of(kernel);
            if (threshold == 0 && kernel.kind.pv == PvType::kBf16 && schedule == sm90::Schedule::kStatic) continue;
            for (const Part part : {Part::kAttend, Part::kBoth, Part::kPrepare}) {
              if (part != Part::kAttend && kernel.kind.pv == PvType::kBf16) continue;
              if (part == Part::kPrepare && !regimes) continue;
              require(sm90::launch(kernel, tactic, d.shape.problem, d.call(), *facts, 0, timer.stream()), "launch");
              PINCH_CUDA_CHECK(cudaStreamSynchronize(timer.stream()));
              cuda::Graph graph = require(timer.capture([&](cudaStream_t stream) {
                return sm90::launch(kernel, tactic, d.shape.problem, d.call(), *facts, 0, stream, part);
              }),
                                          "capture");
              timed.push_back({&kernel, tactic, part, std::move(graph)});
            }
          }
        }
      }
      if (regimes) {
        for (Timed& t : timed) time_alone(timer, t);
      }
      // In another order each round: a kernel runs faster after one that draws little power.
      std::vector<std::size_t> order(timed.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (int round = -1; !regimes && round < samples; ++round) {
        std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(round + 1)));
        for (const std::size_t at : order) {
          Timed& t = timed[at];
          const double us = require(timer.warm_ns(t.graph), "timing") / 1e3;
          if (round >= 0) t.samples_us.push_back(us);
        }
      }
      const double pairs = causal ? 0.5 * seq * (seq + 1.0) : 1.0 * seq * seq;
      const double flops = 4.0 * pairs * dim * 4 * 16;
      for (const Timed& t : timed) {
        if (regimes) {
          const double counted = t.part == Part::kPrepare ? 0 : flops;
          const std::string what =
              std::to_string(seq) + (causal ? ",1," : ",0,") + std::string(pinch::to_string(t.kernel->kind.qk)) + "," +
              std::string(pinch::to_string(t.kernel->kind.pv)) + "," + name(t.part) + "," + sm90::to_string(t.tactic);
          const double burst = median(t.burst_us), sustained = median(t.sustained_us);
          std::fprintf(csv, "%s,%.1f,%.2f,%.1f,%.2f,\"%s\",\"%s\"\n", what.c_str(), counted / burst / 1e6, burst,
                       counted / sustained / 1e6, sustained, join(t.burst_us).c_str(), join(t.sustained_us).c_str());
          std::printf("%-96s burst %7.1f sustained %7.1f TFLOP/s, %9.1f %9.1f us\n", what.c_str(),
                      counted / burst / 1e6, counted / sustained / 1e6, burst, sustained);
          continue;
        }
        const double us = median(t.samples_us);
        const char* const part = name(t.part);
        const std::string qk(pinch::to_string(t.kernel->kind.qk)), pv(pinch::to_string(t.kernel->kind.pv));
        std::fprintf(csv, "4,16,%d,%d,%d,%s,%s,%s,%s,%.1f,%.2f,\"", seq, dim, causal, qk.c_str(), pv.c_str(), part,
                     sm90::to_string(t.tactic).c_str(), flops / us / 1e6, us);
        std::fprintf(csv, "%s\"\n", join(t.samples_us).c_str());
        std::printf("%6d %-6s %-4s %-4s %-6s %7.1f TFLOP/s %9.1f us  %s\n", seq, causal ? "causal" : "full", qk.c_str(),
                    pv.c_str(), part, flops / us / 1e6, us, sm90::to_string(t.tactic).c_str());
      }
      std::fflush(csv);
      std::fflush(stdout);
    }
  }
  std::fclose(csv);
  return 0;
}

}  // namespace
}  // namespace pinch::gpu_test

int main(int argc, char** argv) {
  return pinch::gpu_test::run(argc, argv);
}
