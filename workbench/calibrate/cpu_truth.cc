// Records ground truth of the cpu family on this machine: the median time of every legal tactic of a problem, with cold
// weights (each call takes other weights, from a set larger than the caches), random data, in interleaved rounds.
//
//     build/bin/calibrate/cpu_truth --m 8 32 --n 4096 --k 4096 --append data/cpu/NAME.csv
//
// Tactics that are clearly slow are left out before they cost minutes: each is probed on 128 channels of the problem,
// the survivors on 1536, and those beyond a factor of the fastest are recorded as "hopeless", as are all tactics of a
// kernel and number of workers whose first one is beyond twice the factor. A tactic whose result differs from the FP64
// reference on the probe is recorded as "wrong" and not timed.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "pinch/families.h"
#include "pinch/fp4.h"
#include "pinch/gemm.h"
#include "pinch/machine.h"
#include "pinch/study.h"
#include "pinch/version.h"
#include "src/core/atomic_file.h"
#include "workbench/measure/rounds.h"
#include "workbench/measure/statistics.h"

namespace pinch::calibrate {
namespace {

struct Options {
  GemmProblem problem;
  int threads = 0;
  double budget_s = 45;
  double hopeless_first = 5, hopeless_second = 2;  // times the fastest, on 128 and on 1536 channels
  std::int64_t cold_bytes = std::int64_t{640} << 20;
  std::string file;
};

// Random codes and scales around 1: every bit pattern of a code occurs, no value is special.
Fp4Matrix random_weights(std::int64_t n, std::int64_t k, Fp4Format format, std::mt19937_64& random) {
  Fp4Matrix w{.format = format, .n = n, .k = k, .codes = {}, .scales = {}};
  w.codes.resize(static_cast<std::size_t>(n * k / 2));
  for (std::size_t at = 0; at < w.codes.size(); at += 8) {
    const std::uint64_t bits = random();
    std::memcpy(w.codes.data() + at, &bits, std::min<std::size_t>(8, w.codes.size() - at));
  }
  w.scales.resize(static_cast<std::size_t>(n * k / group_size(format)));
  const std::uint8_t one = format == Fp4Format::kNvfp4 ? 0x38 : 127;
  for (auto& scale : w.scales) scale = static_cast<std::uint8_t>(one - 4 + random() % 8);
  w.alpha = 0.01F;
  return w;
}

struct AlignedBytes {
  explicit AlignedBytes(std::size_t bytes)
      : size((bytes + 63) / 64 * 64 + 64), data(static_cast<std::byte*>(std::aligned_alloc(64, size)), std::free) {}
  [[nodiscard]] std::span<std::byte> span() const { return {data.get(), size}; }
  std::size_t size;
  std::unique_ptr<std::byte, void (*)(void*)> data;
};

// Everything needed to call any tactic on `n` channels of the problem.
class Bench final : public measure::Runner {
 public:
  Bench(const Options& options, std::int64_t n, int copies) : options_(options), n_(n) {
    std::mt19937_64 random(20);
    for (int copy = 0; copy < copies; ++copy) {
      first_ = random_weights(n, options.problem.k, options.problem.format, random);
      weights_.push_back(prepare_weights(first_.view()).value());
    }
    std::normal_distribution<float> normal;
    activations_.resize(static_cast<std::size_t>(options.problem.m * options.problem.k));
    for (auto& value : activations_) value = to_bf16(normal(random));
    output_.resize(static_cast<std::size_t>(options.problem.m * n));
  }

  // Plans are made before the clock starts, as a caller makes them once.
  Result<void> ready(std::size_t tactic, measure::Protocol, int calls) override {
    auto& plans = plans_[tactic];
    plans.resize(weights_.size());
    std::size_t at = at_;
    for (int call = 0; call < std::min<int>(calls, static_cast<int>(weights_.size())); ++call) {
      at = after(at);
      if (!plans[at]) PINCH_TRY(make_plan(tactic, at));
    }
    return {};
  }

  Result<void> run(std::size_t tactic, measure::Protocol, int calls) override {
    const auto& plans = plans_.at(tactic);
    for (int call = 0; call < calls; ++call) {
      at_ = after(at_);
      PINCH_TRY(run_once(*plans[at_]));
    }
    return {};
  }

  /// Fastest of two calls after one that is not counted; that one alone where it exceeds `enough`.
  double probe_ns(std::size_t tactic, double enough = INFINITY) {
    measure::SystemClock clock;
    double fastest = INFINITY;
    for (int call = 0; call < 3; ++call) {
      if (!ready(tactic, measure::Protocol::kCold, 1)) return INFINITY;
      const double start = clock.wall_ns();
      if (!run(tactic, measure::Protocol::kCold, 1)) return INFINITY;
      const double ns = clock.wall_ns() - start;
      if (ns > enough) return ns;
      if (call > 0) fastest = std::min(fastest, ns);
    }
    return fastest;
  }

  /// Relative L2 distance of a call on the last weights to the FP64 reference.
  double relative_error(std::size_t tactic) {
    at_ = weights_.size() > 1 ? weights_.size() - 2 : 0;  // the next is the last, of which first_ has the values
    const std::int64_t m = options_.problem.m, k = options_.problem.k;
    if (reference_.empty()) {
      reference_.resize(static_cast<std::size_t>(m * n_));
      if (!reference_gemm(first_.view(), activations_.data(), k, m, reference_.data(), n_)) return INFINITY;
    }
    std::fill(output_.begin(), output_.end(), Bf16{0x7fc0});
    if (!ready(tactic, measure::Protocol::kCold, 1) || !run(tactic, measure::Protocol::kCold, 1)) return INFINITY;
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < reference_.size(); ++i) {
      const double delta = to_f32(output_[i]) - reference_[i];
      difference += delta * delta;
      norm += reference_[i] * reference_[i];
    }
    return std::isnan(difference) ? INFINITY : std::sqrt(difference / norm);
  }

 private:
  [[nodiscard]] std::size_t after(std::size_t at) const { return (at + 1) % weights_.size(); }

  Result<void> make_plan(std::size_t tactic, std::size_t at) {
    const std::string name = find_tactic_family("cpu").value()->to_string(tactic);
    PINCH_ASSIGN(plan, plan_gemm(weights_[at], options_.problem.m, {.tactic = name, .threads = options_.threads}));
    if (!workspace_ || workspace_->size < plan.workspace_bytes()) {
      workspace_ = std::make_unique<AlignedBytes>(plan.workspace_bytes());
    }
    plans_[tactic][at] = std::move(plan);
    return {};
  }

  Result<void> run_once(const GemmPlan& plan) {
    return run_gemm(plan, activations_.data(), options_.problem.k, output_.data(), n_, workspace_->span());
  }

  const Options& options_;
  std::int64_t n_;
  Fp4Matrix first_;
  std::vector<PreparedWeights> weights_;
  std::map<std::size_t, std::vector<std::optional<GemmPlan>>> plans_;  // [tactic][weights]
  std::vector<Bf16> activations_, output_;
  std::vector<double> reference_;
  std::unique_ptr<AlignedBytes> workspace_;
  std::size_t at_ = 0;
};

struct Candidate {
  std::size_t tactic = 0;
  std::string kernel;  // the name up to the tile, and the workers
  double probe_ns = 0;
  std::string verdict = "ok";
};

// "panel.avx2.6x16" and "one" of "panel.avx2.6x16.k256.along_m.one".
std::string kernel_and_workers(const std::string& name) {
  std::size_t end = 0;
  for (int field = 0; field < 3; ++field) end = name.find('.', end + (field > 0));
  return name.substr(0, end) + name.substr(name.rfind('.'));
}

// Probes the live candidates on the bench's channels and marks those beyond `factor` of the fastest. The last
// instruction sets come first, so that the slow ones meet a fastest time.
void leave_out_slow(std::vector<Candidate>& candidates, Bench& bench, double factor) {
  double fastest = INFINITY;
  std::set<std::string> hopeless;
  for (auto c = candidates.rbegin(); c != candidates.rend(); ++c) {
    if (c->verdict != "ok") continue;
    if (hopeless.contains(c->kernel)) {
      c->verdict = "hopeless";
      continue;
    }
    c->probe_ns = bench.probe_ns(c->tactic, 2 * factor * fastest);
    fastest = std::min(fastest, c->probe_ns);
    if (c->probe_ns > 2 * factor * fastest) hopeless.insert(c->kernel);
  }
  for (Candidate& c : candidates) {
    if (c.verdict == "ok" && c.probe_ns > factor * fastest) c.verdict = "hopeless";
  }
}

Truth new_truth(const Options& options) {
  const CpuMachine& cpu = cpu_machine();
  Truth truth;
  truth.family = "cpu";
  truth.resources.threads = options.threads;
  truth.provenance = {
      {"machine", fmt::format("{} (family {} model {} stepping {}), {} CPUs", cpu.brand, cpu.family, cpu.model,
                              cpu.stepping, cpu.cores)},
      {"source", "workbench/calibrate/cpu_truth.cc"},
      {"method",
       fmt::format("median of interleaved rounds, cold weights (each call takes the next of a set of {} MiB), "
                   "planned beforehand, random data; hopeless: {}x the fastest on 128 channels or {}x on 1536",
                   options.cold_bytes >> 20, options.hopeless_first, options.hopeless_second)},
      {"compiler", std::string(compiler())},
      {"revision", std::string(git_sha())}};
  return truth;
}

Result<void> record(const Options& options) {
  const TacticFamily& family = *find_tactic_family("cpu").value();
  const GemmProblem& p = options.problem;
  const Resources resources{.threads = options.threads};
  PINCH_ASSIGN(ranked, rank_tactics(family, p, resources));
  Truth truth = new_truth(options);
  if (std::filesystem::exists(options.file)) {
    PINCH_ASSIGN(known, read_truth(options.file));
    if (known.resources != truth.resources || known.provenance[0] != truth.provenance[0]) {
      return Error{ErrorCode::kInvalidArgument, "records another machine or thread count; give another file",
                   options.file};
    }
    truth = known;
    std::erase_if(truth.rows, [&](const TruthRow& row) { return row.problem == p; });
  }

  std::vector<Candidate> candidates;
  for (const RankedTactic& tactic : ranked) {
    candidates.push_back({.tactic = tactic.index, .kernel = kernel_and_workers(family.to_string(tactic.index))});
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.tactic < b.tactic; });
  {
    Options probe = options;
    // Partial tiles of every height, and more rows than any tactic's block of rows, below which some are refused.
    probe.problem.m = std::min<std::int64_t>(p.m, 150);
    Bench bench(probe, 128, 1);
    for (Candidate& c : candidates) {
      // bf16 rounding of the result alone is 2^-9 / sqrt(3).
      if (!(bench.relative_error(c.tactic) <= 2.5e-3)) c.verdict = "wrong";
    }
  }
  if (p.n >= 256 && p.m * p.n >= 16384) {
    Bench bench(options, 128, 1);
    leave_out_slow(candidates, bench, options.hopeless_first);
  }
  if (p.n > 1536 && p.m * p.n >= 16384) {
    Bench bench(options, 1536, 2);
    leave_out_slow(candidates, bench, options.hopeless_second);
  }

  const std::int64_t bytes = p.n * p.k * 9 / 16;
  Bench bench(options, p.n, static_cast<int>(std::clamp<std::int64_t>(options.cold_bytes / bytes + 1, 2, 16384)));
  std::vector<measure::Candidate> live;
  for (const Candidate& c : candidates) {
    if (c.verdict != "ok") continue;
    const bool one = family.to_string(c.tactic).ends_with(".one");
    live.push_back({.id = c.tactic, .threads = one ? 1 : options.threads, .estimate_ns = bench.probe_ns(c.tactic)});
  }
  measure::Policy policy;
  policy.protocols = {measure::Protocol::kCold};
  policy.budget_s = options.budget_s;
  policy.min_rounds = 3;
  policy.max_rounds = 25;
  policy.min_sample_ns = 1e6;
  policy.drop_margin = 0.3;
  policy.min_cpu_share = 0.9;
  policy.max_clock_move = 0.08;  // virtual machines move more than bare ones; medians of many rounds bear it
  measure::SystemClock clock;
  measure::AddChain meter(clock);
  const measure::Measurement measured = measure::measure_rounds(bench, clock, meter, live, policy);

  std::size_t timed = 0;
  for (Candidate& c : candidates) {
    TruthRow row{.problem = p, .tactic = family.to_string(c.tactic), .median_ns = {}, .verdict = c.verdict};
    if (row.verdict == "ok") {
      const auto& track = measured.tracks[timed++];
      const auto summary = measure::summarize(measure::accepted_ns(track.samples, measure::Protocol::kCold));
      if (summary.count >= 2) {
        row.median_ns = std::round(summary.median);
      } else {
        row.verdict = "unstable";
      }
    }
    truth.rows.push_back(std::move(row));
  }
  fmt::print("m {} n {} k {}: {} legal, {} timed, {} rounds, stopped by {}, clock {:.2f} GHz, drift {:.1f}%\n", p.m,
             p.n, p.k, candidates.size(), live.size(), measured.rounds, to_string(measured.stop), measured.clock_ghz,
             measured.clock_drift * 100);
  std::fflush(stdout);
  return write_file(options.file, to_csv(truth));
}

}  // namespace
}  // namespace pinch::calibrate

int main(int argc, char** argv) {
  using namespace pinch;
  calibrate::Options options;
  CLI::App app("Records the time of every legal tactic of the cpu family on this machine");
  std::vector<std::int64_t> rows, channels;
  app.add_option("--m", rows, "one or more")->required();
  app.add_option("--n", channels, "one or more")->required();
  app.add_option("--k", options.problem.k)->required();
  app.add_option("--threads", options.threads, "every CPU where left out");
  app.add_option("--budget", options.budget_s, "seconds of timing a problem, after the probes");
  app.add_option("--append", options.file, "CSV of ground truth; rows of this problem are replaced")->required();
  CLI11_PARSE(app, argc, argv);
  if (options.threads < 1) options.threads = cpu_machine().cores;
  for (const std::int64_t n : channels) {
    for (const std::int64_t m : rows) {
      options.problem.m = m;
      options.problem.n = n;
      if (const auto done = calibrate::record(options); !done) {
        fmt::print(stderr, "cpu_truth: error: {}\n", done.error().message());
        return 1;
      }
    }
  }
  return 0;
}
