// Checks the sm_90a kernels on a GPU against an FP64 reference on odd problems: every listed tactic of both on each
// where it is legal, and a sample of the other schedules that the kernels can run (support/sm90_check_plan.h).
//
// Usage: sm90_check listed | planted | full [CSV] | reduced [CSV]
//   listed   without a GPU: the kernels compiled are those of the listed tactics, each once for every type
//   planted  the checker itself, on outputs with a fault each and on selections with a gap each
//   full     every problem; some launched 60 times, whose results must be equal bit by bit. Fails, too, where a listed
//            tactic got fewer than 40 problems with tails in n and k, or no such problem 60 times, or, if it adds up
//            partial sums, none 60 times on which it does: in any weight format and output type. Or where no tactic of
//            a family is legal on a problem that it must run
//   reduced  a few small problems, for compute-sanitizer
// A launch that a rule refuses is a row that names the rule. Exit status: 0 all right, 1 not, 77 skipped.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
#include "tests/gpu/support/sm90_check_plan.h"

namespace pinch::gpu_test {
namespace {

class Check {
 public:
  explicit Check(const char* csv_path) : log_(csv_path, "n,k,m,format,output,family,tactic,verdict,relative_l2,why") {}

  void run(const CheckedProblem& p, Format format, int index, int unlisted_step) {
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
      const int variant = 2 * static_cast<int>(format == Format::kMxfp4) + static_cast<int>(f32);
      struct Launch {
        PlannedCheck plan;
        Candidate candidate;
      };
      std::vector<Launch> all;
      std::size_t most_workspace = 0;
      std::vector<PlannedCheck> launched;
      // Each variant starts elsewhere among what is sampled.
      for (const PlannedCheck& plan : planned_checks(p, index + variant, unlisted_step, tactics_device())) {
        auto c = candidate(data, p.m, f32, plan.tactic);
        if (!c) continue;
        if (plan.refused.empty()) {
          launched.push_back(plan);
          most_workspace = std::max(most_workspace, c->workspace_bytes);
          all.push_back({plan, std::move(*c)});
          continue;
        }
        const std::string rule(plan.refused);
        ++rules_[rule];
        if (must_be_legal(plan.tactic)) log_.fail("the default schedule is refused: " + c->tactic + ": " + rule);
        row(shape, f32, *c, must_be_legal(plan.tactic) ? "wrong" : "illegal", 0, rule);
      }
      GuardedOutput out(p.m, p.n, shape.out_stride, f32);
      GuardedWorkspace workspace(most_workspace);
      for (const Launch& launch : all) {
        check_one(data, launch.candidate, launch.plan.repeats, out, workspace);
        coverage_.add(launch.plan.tactic, p, variant, launch.plan.repeats, tactics_device());
      }
      for (const std::string& family : families_missing(p, launched))
        log_.fail(problem_name(shape) + ": no listed " + family + " tactic is legal");
    }
    ++problems_;
    std::printf("%s: %s\n", problem_name(shape).c_str(), log_.failed == failed_before ? "ok" : "FAILED");
    std::fflush(stdout);
  }

  // Whether all was right, and each of `needed` got its share of the problems.
  bool report(std::span<const Tactic> needed) {
    for (const std::string& gap : coverage_.gaps(needed)) log_.fail(gap);
    std::printf("%d problems, %d checks, %d launches, %d failed\n", problems_, log_.checks, log_.launches, log_.failed);
    for (const auto& [rule, count] : rules_) std::printf("  illegal, %d times: %s\n", count, rule.c_str());
    const Coverage::Least least = coverage_.least(needed);
    if (!needed.empty())
      std::printf("%zu listed tactics: least problems of any %d, least repeats %d\n", needed.size(), least.problems,
                  least.repeats);
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
  Coverage coverage_;
  std::map<std::string, int> rules_;
  int problems_ = 0;
};

using gemm_bf16_fp4::sm90::StreamKernel, gemm_bf16_fp4::sm90::StreamTactic;
using gemm_bf16_fp4::sm90::WgmmaKernel, gemm_bf16_fp4::sm90::WgmmaTactic;

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
  const std::vector<Tactic> tactics = compiled_tactics(PINCH_TACTICS);
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
  const std::vector<Tactic> needed = compiled_tactics(PINCH_TACTICS);
  if (mode == "planted") return report_planted(planted_faults_missed() + planted_gaps_missed(needed, tactics_device()));
  const bool full = mode == "full";
  constexpr int kUnlistedStep = 5, kReducedUnlistedStep = 31;
  Check check(csv_path);
  for (const Format format : {Format::kNvfp4, Format::kMxfp4}) {
    int index = 0;
    for (const CheckedProblem& p : full ? full_problems() : reduced_problems())
      check.run(p, format, ++index, full ? kUnlistedStep : kReducedUnlistedStep);
  }
  return check.report(full ? std::span(needed) : std::span<const Tactic>()) ? 0 : 1;
}

}  // namespace
}  // namespace pinch::gpu_test

int main(int argc, char** argv) {
  return pinch::gpu_test::run(argc, argv);
}
