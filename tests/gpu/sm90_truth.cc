// Records ground truth of the sm90 family: the median time of every legal tactic, cold L2, graph replay between events,
// random data, candidates interleaved.
// Usage: sm90_truth FOLDER [--revision TEXT] [--problems BEGIN END]
//   FOLDER/fit.csv, held_out.csv   what `pinch tactics study` reads: every second problem of the list is held out
//   FOLDER/samples.jsonl           every sample behind them, with the null kernel, a read of the weights and a second
//                                  capture of the best tactic (an A/A pair) in the same rounds; the first line says
//                                  where all of it comes from
// A tactic is validated against the FP64 reference before it is timed ("wrong" where it differs). One beyond
// kHopelessFactor times the fastest after three samples is recorded as "hopeless" and timed no further. Exit status: 0,
// 1 a tactic was wrong, 77 skipped.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/stream/device.h"
#include "kernels/gemm_bf16_fp4/sm90/tactics.h"
#include "tests/gpu/support/candidates.h"
#include "tests/gpu/support/output_check.h"
#include "workbench/cuda/timer.h"

namespace pinch::gpu_test {
namespace {

constexpr double kHopelessFactor = 2.5;
constexpr int kProbes = 3;

struct Layer {
  Format format;
  int n, k;
  std::vector<int> ms;
};

// The 18 problems of the sm100 studies and the layers of four models (fused where servers fuse them), each at some of
// the batch sizes from 1 to 8192, odd ones among them. In two formats at least in part.
std::vector<Layer> layers() {
  const std::vector<int> studied{1, 8, 32, 128, 512, 2048};
  constexpr Format kNv = Format::kNvfp4, kMx = Format::kMxfp4;
  return {{kNv, 4096, 4096, studied},
          {kNv, 6656, 4096, studied},
          {kNv, 19968, 4096, studied},
          // Llama-3-8B
          {kNv, 6144, 4096, {1, 3, 17, 48, 129, 1000, 4096}},
          {kNv, 4096, 4096, {2, 16, 64, 257, 1024, 8192}},
          {kNv, 28672, 4096, {1, 4, 24, 96, 256, 1000}},
          {kNv, 4096, 14336, {1, 8, 17, 64, 200, 1024, 4096}},
          // Llama-3-70B
          {kNv, 10240, 8192, {1, 3, 16, 40, 129, 512}},
          {kNv, 8192, 8192, {2, 8, 32, 128, 257, 2048}},
          {kNv, 57344, 8192, {1, 17, 64, 257}},
          {kNv, 8192, 28672, {1, 4, 24, 129, 512}},
          // Qwen3-32B
          {kNv, 10240, 5120, {1, 6, 32, 100, 384, 3000}},
          {kNv, 5120, 8192, {1, 5, 17, 80, 257, 1000}},
          {kNv, 51200, 5120, {2, 16, 129, 512}},
          {kNv, 5120, 25600, {1, 8, 48, 192, 768}},
          // as large as gpt-oss's
          {kNv, 5120, 2880, {1, 3, 17, 64, 257, 2048, 8192}},
          {kNv, 2880, 4096, {1, 7, 32, 129, 1000}},
          {kNv, 5760, 2880, {1, 12, 96, 512, 4096}},
          {kNv, 2880, 2880, {2, 16, 128, 768}},
          {kMx, 4096, 4096, {1, 3, 8, 17, 64, 128, 257, 512, 2048}},
          {kMx, 19968, 4096, {1, 8, 16, 32, 129, 1000}},
          {kMx, 28672, 4096, {1, 17, 96, 512}},
          {kMx, 4096, 14336, {1, 5, 32, 128, 1024}},
          {kMx, 5760, 2880, {1, 3, 17, 64, 257, 1000, 8192}},
          {kMx, 2880, 2880, {1, 8, 32, 129, 2048}},
          {kMx, 5120, 2880, {2, 16, 48, 192, 512, 4096}}};
}

struct Timed {
  std::string tactic;  // or null, read, again
  cuda::Graph graph;
  std::vector<double> samples_us;
  std::string verdict = "ok";
};

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t half = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
}

double least(const Timed& timed) {
  return *std::min_element(timed.samples_us.begin(), timed.samples_us.end());
}

// Of a program that prints one line; "unknown" where there is none.
std::string line_of(const char* command) {
  char line[256] = "";
  if (std::FILE* pipe = popen(command, "r")) {
    if (std::fgets(line, sizeof line, pipe) == nullptr) line[0] = '\0';
    pclose(pipe);
  }
  line[std::strcspn(line, "\n")] = '\0';
  return line[0] == '\0' ? "unknown" : line;
}

std::FILE* open_to_write(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::perror(path.c_str());
    std::exit(2);
  }
  return file;
}

struct Options {
  std::string folder, revision = "unknown";
  int begin = 0, end = 1 << 30;
};

class Recording {
 public:
  explicit Recording(const Options& options) : options_(options), timer_(require(cuda::Timer::create(0), "timer")) {
    samples_ = open_to_write(options.folder + "/samples.jsonl");
    for (const char* half : {"fit", "held_out"}) {
      std::FILE*& file = halves_[std::strcmp(half, "held_out") == 0];
      file = open_to_write(options.folder + "/" + half + ".csv");
      write_provenance(file);
    }
  }
  ~Recording() {
    std::fclose(samples_);
    for (std::FILE* file : halves_) std::fclose(file);
  }

  void run() {
    int place = 0;
    for (const Layer& layer : layers()) {
      const int first = place, last = place + static_cast<int>(layer.ms.size());
      place = last;
      if (last <= options_.begin || first >= options_.end) continue;
      const ProblemShape shape{.format = layer.format,
                               .m = *std::max_element(layer.ms.begin(), layer.ms.end()),
                               .n = layer.n,
                               .k = layer.k,
                               .a_stride = layer.k,
                               .out_stride = layer.n};
      ProblemData data(shape, 7);
      DeviceBuffer<std::uint8_t> both(data.codes.size() + data.scales.size());  // in one run of bytes, for the read
      PINCH_CUDA_CHECK(cudaMemcpy(both.data(), data.codes.data(), data.codes.size(), cudaMemcpyDeviceToDevice));
      PINCH_CUDA_CHECK(cudaMemcpy(both.data() + data.codes.size(), data.scales.data(), data.scales.size(),
                                  cudaMemcpyDeviceToDevice));
      for (int i = 0; i < static_cast<int>(layer.ms.size()); ++i)
        if (first + i >= options_.begin && first + i < options_.end)
          record(data, layer.ms[static_cast<std::size_t>(i)], both, halves_[(first + i) % 2]);
    }
  }

  bool all_right() const { return wrong_ == 0; }

 private:
  void write_provenance(std::FILE* csv) {
    cudaDeviceProp properties{};
    PINCH_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    gemm_bf16_fp4::sm90::StreamDevice device{};
    PINCH_CUDA_CHECK(query_stream_device(&device));
    int runtime = 0;
    PINCH_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    const std::string smi = line_of(
        "nvidia-smi -i 0 --format=csv,noheader --query-gpu=driver_version,clocks.sm,clocks.max.sm,clocks.mem "
        "2>/dev/null");
    const std::time_t now = std::time(nullptr);
    char date[16];
    std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
    std::fprintf(
        csv,
        "# pinch-truth: 1\n# family: sm90\n# sms: %d\n# machine: %s\n# source: tests/gpu/sm90_truth.cc\n"
        "# method: median of rounds in shuffled order, graph replay between events after 256 MiB of other data were "
        "read, random data, each tactic validated first; hopeless: beyond %.1f times the fastest of %d "
        "samples; samples in samples.jsonl\n"
        "# driver, SM clock before, largest, memory clock (not locked): %s\n# toolkit: CUDA %d.%d\n"
        "# resident clusters of 2, 4, 8: %d, %d, %d\n# revision: %s\n# date: %s\n"
        "m,n,k,format,output,tactic,verdict,median_ns\n",
        properties.multiProcessorCount, properties.name, kHopelessFactor, kProbes, smi.c_str(), runtime / 1000,
        runtime % 1000 / 10, device.clusters[1], device.clusters[2], device.clusters[3], options_.revision.c_str(),
        date);
    if (csv != halves_[0]) return;
    std::fprintf(samples_,
                 "{\"schema\":\"pinch-samples/1\",\"device\":\"%s\",\"sms\":%d,\"driver_and_clocks\":\"%s\","
                 "\"toolkit\":\"CUDA %d.%d\",\"revision\":\"%s\",\"date\":\"%s\",\"unit\":\"us\"}\n",
                 properties.name, properties.multiProcessorCount, smi.c_str(), runtime / 1000, runtime % 1000 / 10,
                 options_.revision.c_str(), date);
  }

  void record(ProblemData& data, int m, const DeviceBuffer<std::uint8_t>& both, std::FILE* csv) {
    const ProblemShape& s = data.shape;
    const int m_step = std::max(1, m / 8);
    data.compute_reference(m, m_step);
    const std::vector<Candidate> all = candidates(data, m, false);
    GuardedOutput out(m, s.n, s.out_stride, false);
    std::size_t most_workspace = 0;
    for (const Candidate& c : all) most_workspace = std::max(most_workspace, c.workspace_bytes);
    GuardedWorkspace workspace(most_workspace);  // one serves every tactic of both kernels in turn
    const auto capture = [&](const Candidate& c) {
      return require(timer_.capture([&](cudaStream_t stream) {
        return cuda::check(c.launch(out.data(), workspace.data(), stream), "launching");
      }),
                     c.tactic.c_str());
    };

    std::vector<Timed> timed;
    for (const Candidate& c : all) {
      timed.push_back({c.tactic, nullptr, {}, verdict_of(data, c, m_step, out, workspace)});
    }
    PINCH_CUDA_CHECK(cudaMemset(workspace.data(), 0, most_workspace));
    PINCH_CUDA_CHECK(cudaDeviceSynchronize());
    for (std::size_t i = 0; i < all.size(); ++i)
      if (timed[i].verdict == "ok") timed[i].graph = capture(all[i]);

    sample(timed, kProbes);
    std::size_t best = 0;
    for (std::size_t i = 0; i < timed.size(); ++i)
      if (timed[i].verdict == "ok" && (timed[best].verdict != "ok" || least(timed[i]) < least(timed[best]))) best = i;
    const double fastest_us = least(timed[best]);
    for (Timed& t : timed) {
      if (t.verdict != "ok") continue;
      if (least(t) > kHopelessFactor * fastest_us) {
        t.verdict = "hopeless";
      } else {
        t.samples_us.clear();
      }
    }
    const std::size_t tactics = timed.size(), twice = best;
    timed.push_back({"again " + timed[best].tactic, capture(all[best]), {}});
    timed.push_back({"null", require(timer_.capture(cuda::Timer::enqueue_null), "null"), {}});
    timed.push_back({"read",
                     require(timer_.capture([&](cudaStream_t stream) {
                       return timer_.enqueue_read(both.data(), both.size(), stream);
                     }),
                             "read"),
                     {}});
    sample(timed, fastest_us < 100 ? 25 : fastest_us < 500 ? 15 : 9);

    for (std::size_t i = 0; i < timed.size(); ++i) {
      const Timed& t = timed[i];
      std::fprintf(samples_,
                   "{\"m\":%d,\"n\":%d,\"k\":%d,\"format\":\"%s\",\"tactic\":\"%s\",\"verdict\":\"%s\",\"us\":[", m,
                   s.n, s.k, name(s.format), t.tactic.c_str(), t.verdict.c_str());
      for (std::size_t j = 0; j < t.samples_us.size(); ++j)
        std::fprintf(samples_, "%s%.2f", j == 0 ? "" : ",", t.samples_us[j]);
      std::fprintf(samples_, "]}\n");
      if (i >= tactics) continue;
      std::fprintf(csv, "%d,%d,%d,%s,bf16,%s,%s,", m, s.n, s.k, name(s.format), t.tactic.c_str(), t.verdict.c_str());
      if (t.verdict == "ok") std::fprintf(csv, "%.0f", median(t.samples_us) * 1e3);
      std::fprintf(csv, "\n");
    }
    const auto of = [&](std::size_t i) { return median(timed[i].samples_us); };
    for (std::size_t i = 0; i < tactics; ++i)
      if (timed[i].verdict == "ok" && of(i) < of(best)) best = i;
    std::printf("%-5s m %5d n %5d k %5d | %3zu tactics | null %5.2f read %7.2f | A/A %5.3f | best %8.2f %s\n",
                name(s.format), m, s.n, s.k, tactics, of(tactics + 1), of(tactics + 2), of(tactics) / of(twice),
                of(best), timed[best].tactic.c_str());
    std::fflush(stdout);
  }

  std::string verdict_of(const ProblemData& data, const Candidate& c, int m_step, GuardedOutput& out,
                         GuardedWorkspace& workspace) {
    out.poison();
    workspace.poison(c.workspace_bytes);
    if (const cudaError_t error = c.launch(out.data(), workspace.data(), nullptr); error != cudaSuccess) {
      std::printf("FAIL launch %s: %s\n", c.tactic.c_str(), cudaGetErrorName(error));
      ++wrong_;
      return "launch_failed";
    }
    PINCH_CUDA_CHECK(cudaDeviceSynchronize());
    const OutputVerdict seen = checker_.check(out, data.expected.data(), m_step, 2.5e-3, workspace);
    if (seen.fault.empty()) return "ok";
    std::printf("FAIL %s m=%d n=%d k=%d: %s\n", c.tactic.c_str(), out.m, out.n, data.shape.k, seen.fault.c_str());
    ++wrong_;
    return "wrong";
  }

  // In rounds, so that a drift of the clocks meets all alike; in another order each time, because a kernel that runs
  // right after another launch of itself finds its code cached and is up to 10% faster, as it is in no network.
  void sample(std::vector<Timed>& timed, int rounds) {
    std::vector<Timed*> order;
    for (Timed& t : timed)
      if (t.graph != nullptr && t.verdict == "ok") order.push_back(&t);
    for (int round = -1; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      for (Timed* t : order) {
        const double us = require(timer_.cold_ns(t->graph), t->tactic.c_str()) / 1e3;
        if (round >= 0) t->samples_us.push_back(us);
      }
    }
  }

  Options options_;
  cuda::Timer timer_;
  std::mt19937 random_{1};
  OutputChecker checker_;
  std::FILE* samples_ = nullptr;
  std::FILE* halves_[2] = {nullptr, nullptr};
  int wrong_ = 0;
};

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--revision" && i + 1 < argc) {
      options.revision = argv[++i];
    } else if (argument == "--problems" && i + 2 < argc) {
      options.begin = std::atoi(argv[++i]);
      options.end = std::atoi(argv[++i]);
    } else if (options.folder.empty()) {
      options.folder = argument;
    }
  }
  if (options.folder.empty() || options.folder[0] == '-') {
    std::printf("usage: sm90_truth FOLDER [--revision TEXT] [--problems BEGIN END]\n");
    return 2;
  }
  skip_without_device();
  Recording recording(options);
  recording.run();
  return recording.all_right() ? 0 : 1;
}

}  // namespace
}  // namespace pinch::gpu_test

int main(int argc, char** argv) {
  return pinch::gpu_test::run(argc, argv);
}
