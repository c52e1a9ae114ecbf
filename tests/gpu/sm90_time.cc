// Times the sm_90a kernels on a GPU, cold L2, beside a null kernel, one read of the same bytes and cuBLAS bf16.
// Usage: sm90_time CSV [--samples N] [--formats nvfp4,mxfp4] [M...]
// Every legal tactic of the list is validated against the FP64 reference, then all are sampled in rounds, each in
// another order; the best four, the yardsticks and a second capture of the best (an A/A pair) are sampled again, more
// often ("final" rows). Every sample is in the CSV. Exit status: 0, 1 a tactic was wrong, 77 skipped.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/support/candidates.h"
#include "tests/gpu/support/code_turns.h"
#include "tests/gpu/support/output_check.h"
#include "workbench/cuda/cublas.h"
#include "workbench/cuda/timer.h"

namespace pinch::gpu_test {
namespace {

struct Timed {
  std::string family, tactic;
  Code code = nullptr;
  cuda::Graph graph;
  std::vector<double> samples_us;
  double median_us = 0;
};

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

struct Options {
  const char* csv_path = nullptr;
  int samples = 15;
  std::vector<Format> formats = {Format::kNvfp4, Format::kMxfp4};
  std::vector<int> ms = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
};

class Timing {
 public:
  explicit Timing(const Options& options)
      : options_(options),
        timer_(require(cuda::Timer::create(0), "timer")),
        cublas_(cuda::Cublas::open(0, timer_.stream())) {
    csv_ = std::fopen(options.csv_path, "w");
    if (csv_ == nullptr) {
      std::printf("cannot write %s: %s\n", options.csv_path, std::strerror(errno));
      std::exit(2);
    }
    std::fprintf(csv_, "n,k,m,format,family,tactic,round,median_us,samples_us\n");
    if (!cublas_) std::printf("%s\n", cublas_.error().message().c_str());
    std::printf("%-6s %5s %5s %5s | %8s %8s %8s | %8s %8s %7s | best tactic\n", "format", "n", "k", "m", "null_us",
                "read_us", "cublas", "best_us", "again_us", "/cublas");
  }
  ~Timing() { std::fclose(csv_); }

  void run(Format format, int n, int k) {
    const int most_m = *std::max_element(options_.ms.begin(), options_.ms.end());
    const ProblemShape shape{.format = format, .m = most_m, .n = n, .k = k, .a_stride = k, .out_stride = n};
    ProblemData data(shape, 99);
    // Codes and scales in one run of bytes, for the read.
    DeviceBuffer<std::uint8_t> both(data.codes.size() + data.scales.size());
    PINCH_CUDA_CHECK(cudaMemcpy(both.data(), data.codes.data(), data.codes.size(), cudaMemcpyDeviceToDevice));
    PINCH_CUDA_CHECK(
        cudaMemcpy(both.data() + data.codes.size(), data.scales.data(), data.scales.size(), cudaMemcpyDeviceToDevice));
    for (const int m : options_.ms) run_m(data, m, both);
  }

  bool all_right() const { return wrong_ == 0; }

 private:
  void run_m(ProblemData& data, int m, const DeviceBuffer<std::uint8_t>& both) {
    const ProblemShape& s = data.shape;
    const int m_step = std::max(1, m / 16);
    data.compute_reference(m, m_step);
    const std::vector<Candidate> all = candidates(data, m, false);
    GuardedOutput out(m, s.n, s.out_stride, false);
    std::size_t most_workspace = 0;
    for (const Candidate& c : all) most_workspace = std::max(most_workspace, c.workspace_bytes);
    GuardedWorkspace workspace(most_workspace);  // one serves every tactic of both kernels in turn

    std::vector<Timed> timed;
    const auto capture = [&](const std::string& family, const std::string& tactic, Code code,
                             const std::function<Result<void>(cudaStream_t)>& work) {
      timed.push_back({family, tactic, code, require(timer_.capture(work), tactic.c_str()), {}, 0});
    };
    const auto capture_yardsticks = [&] {
      capture("null", "null", nullptr, [](cudaStream_t stream) { return cuda::Timer::enqueue_null(stream); });
      capture("read", "read", nullptr,
              [&](cudaStream_t stream) { return timer_.enqueue_read(both.data(), both.size(), stream); });
      if (cublas_)
        capture("cublas", "bf16", &cublas_, [&](cudaStream_t) {
          return cublas_->run(data.a.data(), data.dense.data(), out.data(), cuda::CublasOutput::kBf16, 1, m, s.n, s.k);
        });
    };
    const auto capture_candidate = [&](const Candidate& c) {
      capture(c.family, c.tactic, c.kernel, [&](cudaStream_t stream) {
        return cuda::check(c.launch(out.data(), workspace.data(), stream), "launching");
      });
    };

    capture_yardsticks();
    const std::size_t yardsticks = timed.size();
    for (const Candidate& c : all)
      if (validated(data, c, m_step, out, workspace)) capture_candidate(c);
    PINCH_CUDA_CHECK(cudaMemset(workspace.data(), 0, most_workspace));
    PINCH_CUDA_CHECK(cudaDeviceSynchronize());
    sample(timed, m >= 1024 ? std::max(9, options_.samples / 2) : options_.samples);
    write(s, m, "all", timed);

    std::sort(timed.begin() + static_cast<std::ptrdiff_t>(yardsticks), timed.end(),
              [](const Timed& x, const Timed& y) { return x.median_us < y.median_us; });
    std::vector<std::string> finalists;
    for (std::size_t i = yardsticks; i < timed.size() && finalists.size() < 4; ++i)
      finalists.push_back(timed[i].tactic);
    timed.clear();
    if (finalists.empty()) return;
    finalists.push_back(finalists.front());  // the A/A pair

    capture_yardsticks();
    for (const std::string& tactic : finalists)
      for (const Candidate& c : all)
        if (c.tactic == tactic) capture_candidate(c);
    sample(timed, 2 * options_.samples + 11);
    write(s, m, "final", timed);
    print(s, m, timed);
  }

  bool validated(const ProblemData& data, const Candidate& c, int m_step, GuardedOutput& out,
                 GuardedWorkspace& workspace) {
    out.poison();
    workspace.poison(c.workspace_bytes);
    const cudaError_t error = c.launch(out.data(), workspace.data(), nullptr);
    if (error != cudaSuccess) {
      std::printf("FAIL launch %s: %s\n", c.tactic.c_str(), cudaGetErrorName(error));
      ++wrong_;
      return false;
    }
    PINCH_CUDA_CHECK(cudaDeviceSynchronize());
    const OutputVerdict seen = checker_.check(out, data.expected.data(), m_step, 2.5e-3, workspace);
    if (seen.fault.empty()) return true;
    std::printf("FAIL %s m=%d n=%d k=%d: %s\n", c.tactic.c_str(), out.m, out.n, data.shape.k, seen.fault.c_str());
    ++wrong_;
    return false;
  }

  // In turn, so that a drift of the clocks meets all alike, each round in another order, none after a launch of itself.
  void sample(std::vector<Timed>& timed, int rounds) {
    constexpr int kWarmUps = 2;
    std::vector<Timed*> order;
    std::vector<Code> codes;
    for (Timed& t : timed) {
      order.push_back(&t);
      codes.push_back(t.code);
    }
    CodeTurns turns(codes);
    for (int round = -kWarmUps; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      for (Timed* t : order) {
        if (const auto other = turns.before(static_cast<int>(t - timed.data()), random_))
          require(timer_.cold_ns(timed[static_cast<std::size_t>(*other)].graph), "the launch between");
        const double us = require(timer_.cold_ns(t->graph), t->tactic.c_str()) / 1e3;
        if (round >= 0) t->samples_us.push_back(us);
      }
    }
    for (Timed& t : timed) t.median_us = median(t.samples_us);
  }

  void write(const ProblemShape& s, int m, const char* round, const std::vector<Timed>& timed) {
    for (const Timed& t : timed) {
      std::fprintf(csv_, "%d,%d,%d,%s,%s,%s,%s,%.3f,\"", s.n, s.k, m, name(s.format), t.family.c_str(),
                   t.tactic.c_str(), round, t.median_us);
      for (std::size_t i = 0; i < t.samples_us.size(); ++i)
        std::fprintf(csv_, "%s%.2f", i == 0 ? "" : ";", t.samples_us[i]);
      std::fprintf(csv_, "\"\n");
    }
    std::fflush(csv_);
  }

  void print(const ProblemShape& s, int m, const std::vector<Timed>& timed) const {
    double null_us = 0, read_us = 0, cublas_us = 0;
    const Timed* best = nullptr;
    const Timed* again = nullptr;  // the same tactic, captured a second time
    for (const Timed& t : timed) {
      if (t.family == "null") null_us = t.median_us;
      if (t.family == "read") read_us = t.median_us;
      if (t.family == "cublas") cublas_us = t.median_us;
      if (t.family != "wgmma" && t.family != "stream") continue;
      if (best == nullptr)
        best = &t;
      else if (t.tactic == best->tactic)
        again = &t;
    }
    if (best == nullptr || again == nullptr) return;
    std::printf("%-6s %5d %5d %5d | %8.2f %8.2f %8.2f | %8.2f %8.2f %7.3f | %s\n", name(s.format), s.n, s.k, m, null_us,
                read_us, cublas_us, best->median_us, again->median_us,
                cublas_us > 0 ? best->median_us / cublas_us : 0.0, best->tactic.c_str());
    std::fflush(stdout);
  }

  Options options_;
  cuda::Timer timer_;
  std::mt19937 random_{1};
  Result<cuda::Cublas> cublas_;
  OutputChecker checker_;
  std::FILE* csv_ = nullptr;
  int wrong_ = 0;
};

int usage() {
  std::printf("usage: sm90_time CSV [--samples N] [--formats nvfp4,mxfp4] [M...]\n");
  return 2;
}

int run(int argc, char** argv) {
  Options options;
  std::vector<int> ms;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--samples" && i + 1 < argc) {
      options.samples = std::atoi(argv[++i]);
    } else if (argument == "--formats" && i + 1 < argc) {
      const std::string formats = argv[++i];
      options.formats.clear();
      for (const Format format : {Format::kNvfp4, Format::kMxfp4})
        if (formats.find(name(format)) != std::string::npos) options.formats.push_back(format);
    } else if (options.csv_path == nullptr) {
      options.csv_path = argv[i];
    } else {
      ms.push_back(std::atoi(argv[i]));
    }
  }
  if (!ms.empty()) options.ms = ms;
  if (options.csv_path == nullptr || options.samples < 3 || options.formats.empty() ||
      *std::min_element(options.ms.begin(), options.ms.end()) < 1)
    return usage();
  skip_without_device();
  Timing timing(options);
  constexpr int kShapes[][2] = {{4096, 4096}, {19968, 4096}, {19968, 6656}};
  for (const Format format : options.formats)
    for (const auto& [n, k] : kShapes) timing.run(format, n, k);
  return timing.all_right() ? 0 : 1;
}

}  // namespace
}  // namespace pinch::gpu_test

int main(int argc, char** argv) {
  return pinch::gpu_test::run(argc, argv);
}
