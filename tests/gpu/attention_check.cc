// Checks the sm_90a attention kernels on a GPU against FP64: every compiled kernel on odd problems.
// Usage: attention_check planted | full [CSV] | reduced [CSV] | sanitized [CSV] | crowded [CSV]
//   planted    the checker itself, on outputs with a fault each
//   full       every problem; some launched 60 times, whose results must be equal bit by bit
//   reduced    a few small problems
//   sanitized  those and some that give a CTA several query tiles, one output type each, the workspace as it was
//              allocated: for compute-sanitizer
//   crowded    preparation while other work holds all multiprocessors but one; `full` has it too
// A bf16 output is compared with FP64 where nothing is rounded (error of the types: facts in docs/design/attention.md),
// an FP32 output with an emulation of the kernel's own roundings, which leaves the last bit of exponentials and sums.
// Exit status: 0 all right, 1 not, 77 skipped.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/attention/sm90/backend.h"
#include "tests/gpu/support/attention_data.h"
#include "tests/gpu/support/check_log.h"
#include "tests/gpu/support/occupier.h"

namespace pinch::gpu_test {
namespace {

using namespace attention;
using sm90::BuiltKernel, sm90::Kind, sm90::Part, sm90::Tactic, sm90::Tile;

struct CheckedShape {
  int batch, heads, kv_heads, seq, kv_seq;
  bool causal;
  bool variable = false, heads_inside = false;
  int row_padding = 0;
  float sigma = 1;
  int repeats = 1;
  bool nan_past_end = false, minus_infinity = false;
};

constexpr CheckedShape kReduced[] = {
    {1, 2, 1, 130, 200, true, false, true, 8}, {3, 2, 2, 70, 150, true, true}, {1, 1, 1, 64, 128, false}};

// More than two query tiles for each of 132 CTAs, of few rows each, which an emulation under a sanitizer is slow for;
// up to three key tiles. Of five sequences of variable length one has no query and one no key.
constexpr CheckedShape kSeveralTiles[] = {
    {2, 150, 75, 3, 300, true}, {5, 80, 40, 16, 270, true, true, true, 8}, {1, 290, 290, 5, 120, false}};

constexpr CheckedShape kFull[] = {{1, 1, 1, 1, 1, false},
                                  {1, 1, 1, 128, 128, false},
                                  {1, 2, 1, 128, 256, false},
                                  {1, 1, 1, 64, 127, true},
                                  {2, 4, 2, 129, 129, true, false, true},
                                  {1, 16, 1, 33, 400, true, false, true, 8},
                                  {2, 3, 3, 257, 100, true, false, false, 24},
                                  {1, 2, 2, 300, 17, true},
                                  {2, 4, 4, 511, 513, false, false, true, 16, 3},
                                  {1, 8, 4, 1000, 1000, true, false, false, 0, 3},
                                  {4, 4, 2, 300, 350, true, true, true, 8},
                                  {5, 2, 1, 200, 190, false, true, false, 16},
                                  {3, 2, 1, 260, 330, true, true, true, 0, 1, 1, true},
                                  {1, 2, 1, 1025, 4097, false, false, false, 0, 6},
                                  {1, 2, 2, 4097, 1025, true, false, true, 0, 6},
                                  {2, 16, 4, 1024, 1024, true, false, true, 0, 1, 60},
                                  {4, 16, 16, 777, 2048, false, false, true, 0, 3, 60},
                                  {1, 4, 2, 300, 500, true, false, false, 0, 1, 1, false, true},
                                  {2, 2, 2, 200, 333, false, false, true, 8, 3, 1, false, true}};

// Of O and of the log-sum-exp.
struct Limits {
  double relative_l2, lse;
};
// Of the log-sum-exp of bf16 scores: each of dim additions may be cut by a unit in the last place of six sigma, the
// largest score, and each of a lane's quarter of the keys by one of the row's sum; 16 for the rest. An exponential's
// relative error is at most the sum's.
double lse_limit(const Tile& tile, const AttentionProblem& p, float sigma) {
  const auto additions =
      static_cast<double>(p.dim) * 6 * static_cast<double>(sigma) + static_cast<double>(p.kv_seq) / 4;
  const double exp2 = tile.exp2 == Exp2::kHardware ? 0 : kPolyError[tile.exp2 == Exp2::kPoly4 ? 1 : 0];
  return 0x1p-23 * (additions + 16) + exp2;
}
// Against FP64 with nothing rounded, at the worst sigma. bf16: P's and O's rounding, 2^-9 each, are .0016 and .0011
// RMS; fp8: P and V in E4M3 are .024 and .027; fp4: .096 and .097 (docs/design/attention.md). Scores of Q and K in E4M3
// are off by .037 of their sigma each, whose exponentials are off by .05 to .3 at sigma 1 to 6.
Limits type_limits(const Kind& kind, double lse, float sigma) {
  if (kind.pv == PvType::kBf16) return {3e-3, lse};
  if (kind.pv == PvType::kFp4) return {0.17, lse};
  if (kind.qk == QkType::kBf16) return {0.045, lse};
  return {0.045 + 0.04 * static_cast<double>(sigma), lse + 0.25 * static_cast<double>(sigma)};
}
// Against the emulation: what so large a share of P a step of its type off would make of O. A step beside P is 2^-8,
// 2^-4, 2^-2 (half of its largest); the share leaves room for ties (docs/design/attention.md). The matrix unit cuts
// each of the 128 E4M3 products of a score at 2^-13 of the largest, so that a score is off by sqrt(128) 2^-13 of it;
// the largest are six sigma, in units of log2(e), and P is off by ln 2 of that. So many ties are near then that a row
// of few keys may have one: a step of E4M3, 2^-3, of half its sum.
Limits emulation_limits(const Tactic& tactic, const AttentionProblem& p, float sigma) {
  const bool fp8 = p.qk == QkType::kFp8, mixed = tactic.tile.exp2 == Exp2::kMixed;
  const auto rows = static_cast<double>(p.batch * p.heads * (p.causal ? std::min(p.seq, p.kv_seq) : p.seq));
  const double scores = fp8 ? 11.3 * 0x1p-13 * 6 * static_cast<double>(sigma) : 0.0;
  const double step = p.pv == PvType::kFp4 ? 0x1p-2 : p.pv == PvType::kFp8 ? 0x1p-4 : 0x1p-8;
  const double one_of = p.pv == PvType::kFp4 ? 4000 : p.pv == PvType::kFp8 ? (mixed ? 40 : 1000) : mixed ? 15 : 100;
  return {step / std::sqrt(one_of) + scores + (fp8 ? 0x1p-4 / std::sqrt(rows) : 0),
          lse_limit(tactic.tile, p, sigma) + scores};
}

class Check {
 public:
  explicit Check(const char* csv_path)
      : log_(csv_path,
             "dim,qk,pv,batch,heads,kv_heads,seq,kv_seq,causal,variable,sigma,output,tactic,verdict,relative_l2,"
             "lse_error,why") {}

  void run(const BuiltKernel& kernel, const CheckedShape& s, int index) {
    for (const OutputType output : {OutputType::kBf16, OutputType::kF32}) run(kernel, s, index, output, false);
  }

  void run(const BuiltKernel& kernel, const CheckedShape& s, int index, OutputType output, bool sanitized) {
    // Scores that overflow when they are scaled are numbers where nothing is rounded.
    if (s.minus_infinity && kernel.kind.qk == QkType::kFp8 && output == OutputType::kBf16) return;
    AttentionShape shape;
    shape.problem = {s.batch,         s.heads,  s.kv_heads,     s.seq,          s.kv_seq,
                     kernel.kind.dim, s.causal, kernel.kind.pv, kernel.kind.qk, output};
    shape.variable = s.variable;
    shape.heads_inside = s.heads_inside;
    shape.row_padding = s.row_padding;
    shape.sigma = s.sigma;
    shape.nan_past_end = s.nan_past_end;
    shape.minus_infinity = s.minus_infinity;
    shape.raw_workspace = sanitized;
    AttentionData data(shape, 4321 + static_cast<std::uint64_t>(index));
    Tactic tactic{kernel.tile};
    tactic.schedule = index % 2 == 0 ? sm90::Schedule::kDynamic : sm90::Schedule::kStatic;
    tactic.threshold = kernel.kind.pv == PvType::kBf16 && index % 3 != 0 ? 8 : 0;
    tactic.heads = index % 5;
    if (output == OutputType::kBf16) {
      data.compute_reference();
    } else {
      data.compute_emulation(tactic);
    }
    check_one(data, kernel, tactic, s.repeats,
              output == OutputType::kBf16
                  ? type_limits(kernel.kind, lse_limit(tactic.tile, shape.problem, s.sigma), s.sigma)
                  : emulation_limits(tactic, shape.problem, s.sigma));
  }

  // Preparation while one multiprocessor is free, so that a head's blocks cannot all wait for one another at once: it
  // must end before the others are, and give what it gives elsewhere.
  void crowded() {
    for (const BuiltKernel& kernel : sm90::built_kernels()) {
      if (kernel.kind.qk != QkType::kFp8 || kernel.tile.read_ahead > 0) continue;
      AttentionShape shape;
      shape.problem = {1, 2, 1, 700, 3000, kernel.kind.dim, false, kernel.kind.pv, kernel.kind.qk, OutputType::kF32};
      AttentionData data(shape, 99);
      const Tactic tactic{kernel.tile};
      data.compute_emulation(tactic);
      const auto& facts = require(sm90::device_facts(0), "device");
      const auto launch = [&](Part part) {
        require(sm90::launch(kernel, tactic, shape.problem, data.call(), *facts, 0, nullptr, part), "launch");
      };
      launch(Part::kBoth);  // loads the kernels, which waits for the device
      {
        const Occupier others(facts->sm_count - 1);
        launch(Part::kPrepare);
        if (!others.others_end_within_seconds(2)) log_.fail("preparation waits for blocks that cannot start");
      }
      check_one(data, kernel, tactic, 1, emulation_limits(tactic, shape.problem, 1), Part::kAttend);
    }
  }

  bool report() const {
    std::printf("%d checks, %d launches, %d failed\n", log_.checks, log_.launches, log_.failed);
    return log_.all_right();
  }

 private:
  void check_one(AttentionData& data, const BuiltKernel& kernel, const Tactic& tactic, int repeats, Limits limits,
                 Part part = Part::kBoth) {
    const auto& facts = require(sm90::device_facts(0), "device");
    const auto launch = [&]() -> std::string {
      data.poison();
      const auto done = sm90::launch(kernel, tactic, data.shape.problem, data.call(), *facts, 0, nullptr, part);
      if (!done) return done.error().message();
      if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
        std::printf("FAIL %s %s, ending here\n", to_string(tactic).c_str(), cudaGetErrorName(error));
        std::exit(1);
      }
      return {};
    };
    CheckVerdict verdict = launch_repeatedly(log_, repeats, launch, [&] { return data.hash(); });
    AttentionVerdict seen;
    if (verdict.why.empty()) {
      seen = data.check(limits.relative_l2, limits.lse);
      if (!seen.fault.empty()) verdict = {"wrong", seen.fault};
    }
    const AttentionProblem& p = data.shape.problem;
    char row[320], errors[64];
    std::snprintf(row, sizeof row, "%d,%s,%s,%d,%d,%d,%d,%d,%d,%d,%g,%s,%s", static_cast<int>(p.dim),
                  std::string(pinch::to_string(p.qk)).c_str(), std::string(pinch::to_string(p.pv)).c_str(),
                  static_cast<int>(p.batch), static_cast<int>(p.heads), static_cast<int>(p.kv_heads),
                  static_cast<int>(p.seq), static_cast<int>(p.kv_seq), p.causal, data.shape.variable,
                  static_cast<double>(data.shape.sigma), p.output == OutputType::kF32 ? "f32" : "bf16",
                  sm90::to_string(tactic).c_str());
    std::snprintf(errors, sizeof errors, "%.3g,%.3g", seen.relative_l2, seen.lse_error);
    log_.row(std::string(row) + "," + verdict.name + "," + errors + ",\"" + verdict.why + "\"");
    if (!verdict.why.empty())
      log_.fail(std::string(row) + ": " + verdict.name + ": " + verdict.why + " (relative L2, lse: " + errors + ")");
  }

  CheckLog log_;
};

// The checker on outputs with one fault each; how many it misses.
int planted_faults_missed() {
  const auto& kernel = sm90::built_kernels()[0];
  AttentionShape shape;
  shape.problem = {1, 2, 1, 100, 130, kernel.kind.dim, true, kernel.kind.pv, kernel.kind.qk, OutputType::kBf16};
  shape.row_padding = 8;
  AttentionData data(shape, 5);
  data.compute_reference();
  const auto& facts = require(sm90::device_facts(0), "device");
  const Tactic tactic{kernel.tile};
  int missed = 0;
  for (int place = -1; place < 5; ++place) {
    data.poison();
    const auto launched = sm90::launch(kernel, tactic, shape.problem, data.call(), *facts, 0, nullptr, Part::kBoth);
    if (!launched) std::printf("%s\n", launched.error().message().c_str());
    PINCH_CUDA_CHECK(cudaDeviceSynchronize());
    const std::uint64_t before = data.hash();
    if (place >= 0) data.plant(place);
    const bool right = data.check(3e-3, 1e-3).fault.empty();
    if (right == (place < 0) && (place < 0 || data.hash() != before)) continue;
    ++missed;
    std::printf("MISSED planted fault %d\n", place);
  }
  return missed;
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const char* csv_path = argc > 2 ? argv[2] : nullptr;
  if (mode != "planted" && mode != "full" && mode != "reduced" && mode != "sanitized" && mode != "crowded") {
    std::printf("usage: attention_check planted | full [CSV] | reduced [CSV] | sanitized [CSV] | crowded [CSV]\n");
    return 2;
  }
  skip_without_device();
  if (mode == "planted") return report_planted(planted_faults_missed());
  Check check(csv_path);
  int index = 0;
  for (const BuiltKernel& kernel : sm90::built_kernels()) {
    if (kernel.tile.read_ahead > 0) continue;
    if (mode == "reduced") {
      for (const CheckedShape& shape : kReduced) check.run(kernel, shape, ++index);
    } else if (mode == "sanitized") {
      const auto sanitized = [&](const CheckedShape& shape) {
        check.run(kernel, shape, index, index % 2 == 0 ? OutputType::kBf16 : OutputType::kF32, true);
        ++index;
      };
      for (const CheckedShape& shape : kReduced) sanitized(shape);
      for (const CheckedShape& shape : kSeveralTiles) sanitized(shape);
      ++index;  // the next kernel has the other schedule and output type
    } else if (mode == "full") {
      for (const CheckedShape& shape : kFull) check.run(kernel, shape, ++index);
      for (const CheckedShape& shape : kSeveralTiles) check.run(kernel, shape, ++index);
    }
  }
  if (mode == "full" || mode == "crowded") check.crowded();
  return check.report() ? 0 : 1;
}

}  // namespace
}  // namespace pinch::gpu_test

int main(int argc, char** argv) {
  return pinch::gpu_test::run(argc, argv);
}
