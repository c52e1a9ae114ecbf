// Checks the sm_90a kernels on a GPU: every tactic of both against an FP64 reference on odd problems.
// Usage: sm90_check listed | planted | full [CSV] | reduced [CSV]
//   listed   without a GPU: the kernels compiled are those of the listed tactics, each once for every type
//   planted  the checker itself, on outputs with a fault each
//   full     every problem; some launched 60 times, whose results must be equal bit by bit
//   reduced  a few small problems, for compute-sanitizer
// A tactic that a rule refuses is a row that names the rule. Exit status: 0 all right, 1 not, 77 skipped.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/instances.h"
#include "kernels/gemm_bf16_fp4/sm90/tactics.h"
#include "tests/gpu/support/candidates.h"
#include "tests/gpu/support/check_log.h"
#include "tests/gpu/support/output_check.h"

namespace pinch::gpu_test {
namespace {

struct CheckedProblem {
  int m, n, k;
  int repeats = 1;
  bool nan_and_inf = false;
};

constexpr CheckedProblem kReduced[] = {{3, 72, 96, 1, true}, {2, 136, 1056}, {33, 264, 224}};

constexpr CheckedProblem kFull[] = {{1, 8, 32},
                                    {2, 16, 64},
                                    {3, 72, 96, 1, true},
                                    {5, 64, 64},
                                    {7, 24, 96},
                                    {8, 40, 160},
                                    {9, 72, 1056},
                                    {13, 136, 4128},
                                    {16, 8, 8192},
                                    {3, 40, 20512},
                                    {17, 136, 160},
                                    {25, 1000, 992},
                                    {31, 264, 2048},
                                    {32, 4104, 96},
                                    {32, 520, 6656},
                                    {1, 4096, 4096, 60},
                                    {7, 1000, 6656, 60},
                                    {16, 2056, 4096, 60},
                                    {32, 1000, 4128, 60},
                                    {9, 6656, 6656},
                                    {31, 19968, 416},
                                    {33, 1000, 992, 1, true},
                                    {64, 256, 512},
                                    {100, 520, 1056},
                                    {129, 264, 2048},
                                    {130, 4096, 4096, 60},
                                    {255, 392, 640},
                                    {257, 1544, 736, 1, true},
                                    {300, 5000, 1024, 60},
                                    {512, 20000, 320},
                                    {1000, 648, 1504},
                                    {2048, 4096, 256}};

class Check {
 public:
  explicit Check(const char* csv_path) : log_(csv_path, "n,k,m,format,output,family,tactic,verdict,relative_l2,why") {}

  // Every `step`th streaming tactic: they are many, and the large problems take long.
  void run(const CheckedProblem& p, Format format, int index, int step) {
    const ProblemShape shape{.format = format,
                             .m = p.m,
                             .n = p.n,
                             .k = p.k,
                             .a_stride = p.k + 8 * (index % 3),
                             .out_stride = p.n + 8 * (index % 2),
                             .swizzled_scales = index % 2 == 1,
                             .nan_and_inf = p.nan_and_inf};
    ProblemData data(shape, 1234 + static_cast<std::uint64_t>(index));
    data.compute_reference(p.m, 1);
    const int failed_before = log_.failed;
    for (const bool f32 : {false, true}) {
      std::vector<Candidate> all = candidates(data, p.m, f32, Breadth::kEverySchedule);
      std::size_t most_workspace = 0;
      for (const Candidate& c : all) most_workspace = std::max(most_workspace, c.workspace_bytes);
      GuardedOutput out(p.m, p.n, shape.out_stride, f32);
      GuardedWorkspace workspace(most_workspace);
      std::map<std::string, int> legal;
      int stream_index = index;
      for (const Candidate& c : all) {
        if (!c.illegal.empty()) {
          ++rules_[c.illegal];
          if (c.must_be_legal) log_.fail("the default schedule is refused: " + c.tactic + ": " + c.illegal);
          row(shape, f32, c, c.must_be_legal ? "wrong" : "illegal", 0, c.illegal);
          continue;
        }
        ++legal[c.family];
        if (c.family == "stream" && stream_index++ % step != 0) continue;
        check_one(data, c, p.repeats, out, workspace);
      }
      const char* const needed[] = {"wgmma", "stream"};
      for (const char* family : needed)
        if (legal[family] == 0 && (p.m <= 32 || std::strcmp(family, "wgmma") == 0))
          log_.fail(problem_name(shape) + ": no " + family + " tactic is legal");
    }
    ++problems_;
    std::printf("%s: %s\n", problem_name(shape).c_str(), log_.failed == failed_before ? "ok" : "FAILED");
    std::fflush(stdout);
  }

  // Whether all was right.
  bool report() const {
    std::printf("%d problems, %d checks, %d launches, %d failed\n", problems_, log_.checks, log_.launches, log_.failed);
    for (const auto& [rule, count] : rules_) std::printf("  illegal, %d times: %s\n", count, rule.c_str());
    return log_.all_right();
  }

 private:
  static std::string problem_name(const ProblemShape& s) {
    return "m=" + std::to_string(s.m) + " n=" + std::to_string(s.n) + " k=" + std::to_string(s.k) + " " +
           name(s.format);
  }

  void check_one(const ProblemData& data, const Candidate& c, int repeats, GuardedOutput& out,
                 GuardedWorkspace& workspace) {
    workspace.poison(c.workspace_bytes);
    const auto launch = [&]() -> std::string {
      out.poison();
      cudaError_t error = c.launch(out.data(), workspace.data(), nullptr);
      if (error == cudaSuccess) error = cudaDeviceSynchronize();
      if (error == cudaSuccess) return {};
      if (error != cudaErrorInvalidValue) {  // the context is gone
        std::printf("FAIL %s %s, ending here\n", c.tactic.c_str(), cudaGetErrorName(error));
        row(data.shape, out.f32, c, "crashed", 0, cudaGetErrorName(error));
        std::exit(1);
      }
      return cudaGetErrorName(error);
    };
    CheckVerdict verdict = launch_repeatedly(log_, repeats, launch, [&] { return checker_.hash(out); });
    OutputVerdict seen;
    if (verdict.why.empty()) {
      const double limit = out.f32 ? 1e-5 * std::sqrt(static_cast<double>(data.shape.k)) : 2.5e-3;
      seen = checker_.check(out, data.expected.data(), 1, limit, workspace);
      if (!seen.fault.empty()) verdict = {"wrong", seen.fault};
    }
    row(data.shape, out.f32, c, verdict.name, seen.relative_l2, verdict.why);
    if (verdict.why.empty()) return;
    char error[48];
    std::snprintf(error, sizeof error, " (relative L2 %.3g)", seen.relative_l2);
    log_.fail(problem_name(data.shape) + (out.f32 ? " f32 " : " bf16 ") + c.tactic + ": " + verdict.name + ": " +
              verdict.why + error);
  }

  void row(const ProblemShape& s, bool f32, const Candidate& c, const char* verdict, double relative_l2,
           const std::string& why) {
    char error[32];
    std::snprintf(error, sizeof error, "%.3g", relative_l2);
    log_.row(std::to_string(s.n) + "," + std::to_string(s.k) + "," + std::to_string(s.m) + "," + name(s.format) +
             (f32 ? ",f32," : ",bf16,") + c.family + "," + c.tactic + "," + verdict + "," + error + ",\"" + why + "\"");
  }

  CheckLog log_;
  OutputChecker checker_;
  std::map<std::string, int> rules_;
  int problems_ = 0;
};

using gemm_bf16_fp4::sm90::StreamKernel, gemm_bf16_fp4::sm90::StreamTactic;
using gemm_bf16_fp4::sm90::Tactic, gemm_bf16_fp4::sm90::WgmmaKernel, gemm_bf16_fp4::sm90::WgmmaTactic;

// How many kernels are compiled that no tactic uses, compiled twice, or missing: in each weight format and, for wgmma,
// output type.
int listing_faults(std::span<const WgmmaKernel> wgmma, std::span<const StreamKernel> stream,
                   std::span<const Tactic> tactics) {
  int faults = 0;
  const auto uses = [](const Tactic& tactic, const auto& kernel) {
    if constexpr (std::is_same_v<std::decay_t<decltype(kernel)>, WgmmaKernel>) {
      const auto* t = std::get_if<WgmmaTactic>(&tactic);
      return t != nullptr && t->tile == kernel.tile;
    } else {
      const auto* t = std::get_if<StreamTactic>(&tactic);
      return t != nullptr && instance_of(*t) == kernel.instance;
    }
  };
  const auto unlisted = [&](const auto& kernel) {
    return std::none_of(tactics.begin(), tactics.end(), [&](const Tactic& t) { return uses(t, kernel); });
  };
  faults += static_cast<int>(std::count_if(wgmma.begin(), wgmma.end(), unlisted));
  faults += static_cast<int>(std::count_if(stream.begin(), stream.end(), unlisted));
  for (const Tactic& tactic : tactics) {
    const auto kernels = [&](const auto& all) {
      return std::count_if(all.begin(), all.end(), [&](const auto& kernel) { return uses(tactic, kernel); });
    };
    faults += kernels(wgmma) + kernels(stream) != (std::holds_alternative<WgmmaTactic>(tactic) ? 4 : 2);
  }
  return faults;
}

int check_listing() {
  std::vector<Tactic> tactics;
  for (const Tactic& tactic : gemm_bf16_fp4::sm90::tactics())
    if (std::strcmp(PINCH_TACTICS, "full") == 0 || in_core(tactic)) tactics.push_back(tactic);
  const auto wgmma = gemm_bf16_fp4::sm90::wgmma_kernels();
  const auto stream = gemm_bf16_fp4::sm90::stream_kernels();
  const int faults = listing_faults(wgmma, stream, tactics);
  std::printf("%zu tactics, %zu wgmma and %zu streaming kernels (%s), %d faults\n", tactics.size(), wgmma.size(),
              stream.size(), PINCH_TACTICS, faults);
  // The check itself: a kernel is missing, then no tactic uses one.
  const bool sees_missing = listing_faults(wgmma.subspan(1), stream, tactics) > 0;
  const bool sees_unlisted = listing_faults(wgmma, stream, std::span(tactics).subspan(0, 1)) > 0;
  if (!sees_missing || !sees_unlisted) std::printf("the check misses a planted fault\n");
  return faults == 0 && sees_missing && sees_unlisted ? 0 : 1;
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const char* csv_path = argc > 2 ? argv[2] : nullptr;
  if (mode == "listed") return check_listing();
  if (mode != "planted" && mode != "full" && mode != "reduced") {
    std::printf("usage: sm90_check listed | planted | full [CSV] | reduced [CSV]\n");
    return 2;
  }
  skip_without_device();
  if (mode == "planted") return report_planted(planted_faults_missed());
  Check check(csv_path);
  for (const Format format : {Format::kNvfp4, Format::kMxfp4}) {
    int index = 0;
    if (mode == "reduced") {
      for (const CheckedProblem& p : kReduced) check.run(p, format, ++index, 31);
    } else {
      for (const CheckedProblem& p : kFull)
        check.run(p, format, ++index, static_cast<std::int64_t>(p.n) * p.k > (1 << 22) ? 31 : p.repeats > 1 ? 5 : 1);
    }
  }
  return check.report() ? 0 : 1;
}

}  // namespace
}  // namespace pinch::gpu_test

int main(int argc, char** argv) {
  return pinch::gpu_test::run(argc, argv);
}
