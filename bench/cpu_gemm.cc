// mm_bf16_fp4 on this CPU beside the limits of the same run: for each m, format and instruction set the best tactic's
// GFLOP/s, and the share it has of what the multiply-add unit and the memory allow.
//
// Samples of a kernel alternate with samples of its limits, so that a change of clock or a busy neighbour moves both.
// hot: one matrix again and again. cold: as many distinct matrices in turn as overflow the last-level cache.
#include <fmt/core.h>
#include <sys/resource.h>

#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/cpu_limits.h"
#include "pinch/families.h"
#include "pinch/gemm.h"
#include "pinch/machine.h"

namespace pinch::bench {
namespace {

struct Options {
  std::vector<std::int64_t> m = {1, 8, 32, 128, 512};
  std::int64_t n = 4096, k = 4096;
  std::vector<std::string> formats = {"nvfp4", "mxfp4"};
  std::vector<std::string> isas;
  std::vector<int> threads = {1, 2};
  std::string only;  // tactics whose name contains this
  double seconds = 0.3;
  bool cold = true, all = false;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_now() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Work done in a span of time, and whether all threads ran throughout: a neighbour that takes a core shows as CPU time
// missing from the span, and says nothing of the kernel.
struct Rate {
  double per_s = 0;
  bool undisturbed = false;
};

template <class Work>
Rate rate_of(int threads, Work work) {
  const double cpu = cpu_now(), start = now();
  const double done = work();
  const double wall = now() - start;
  return {done / wall, cpu_now() - cpu >= 0.96 * threads * wall};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

Fp4Matrix random_weights(Fp4Format format, std::int64_t n, std::int64_t k, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  Fp4Matrix w{format, n, k, {}, {}, ScaleLayout::kLinear, 0.01F};
  w.codes.resize(static_cast<std::size_t>(n * k / 2));
  w.scales.resize(static_cast<std::size_t>(n * k / group_size(format)));
  for (auto& code : w.codes) code = static_cast<std::uint8_t>(bits());
  for (auto& scale : w.scales) {
    scale = static_cast<std::uint8_t>((format == Fp4Format::kNvfp4 ? 0x30 : 120) + bits() % 16);
  }
  return w;
}

template <class T>
T must(Result<T> result) {
  if (!result.ok()) {
    fmt::print(stderr, "{}\n", result.error().message());
    std::exit(3);
  }
  return std::move(result).value();
}

struct Buffer {
  explicit Buffer(std::size_t size)
      : bytes((size + 4095) / 4096 * 4096), data(std::aligned_alloc(4096, bytes), std::free) {
    std::fill_n(static_cast<std::byte*>(data.get()), bytes, std::byte{0});
  }
  [[nodiscard]] std::span<std::byte> span() const { return {static_cast<std::byte*>(data.get()), bytes}; }
  std::size_t bytes;
  std::unique_ptr<void, void (*)(void*)> data;
};

// A tactic on one matrix (hot) or on many in turn (cold).
struct Candidate {
  std::string tactic, isa;
  std::vector<GemmPlan> plans;
  std::size_t next = 0;
  std::vector<double> rates, limits;  // FLOP/s of it and of its multiply-add loop, undisturbed sample by sample
  std::size_t taken = 0;
};

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {}

  void run() {
    const CpuMachine& cpu = cpu_machine();
    fmt::print("{} ({} usable cores; L1d {} KiB, L2 {} KiB, L3 {} MiB)\n", cpu.brand, cpu.cores, cpu.l1d_bytes >> 10,
               cpu.l2_bytes >> 10, cpu.l3_bytes >> 20);
    for (const std::string& format : options_.formats) {
      const Fp4Format f = format == "nvfp4" ? Fp4Format::kNvfp4 : Fp4Format::kMxfp4;
      weights_.clear();
      const std::size_t matrix = static_cast<std::size_t>(options_.n * options_.k) / 2;
      const std::size_t count = options_.cold ? std::max<std::size_t>(2, cpu.l3_bytes * 5 / 4 / matrix + 1) : 1;
      for (std::size_t i = 0; i < count; ++i) {
        weights_.push_back(must(prepare_weights(random_weights(f, options_.n, options_.k, i).view())));
      }
      for (const int threads : options_.threads) {
        print_limits(threads);
        for (const std::int64_t m : options_.m) {
          measure(f, m, threads, false);
          if (options_.cold && m <= 8) measure(f, m, threads, true);
        }
      }
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    fmt::print("peak memory {} MiB\n", usage.ru_maxrss >> 10);
  }

 private:
  [[nodiscard]] double read_rate(bool cold, int threads) {
    std::vector<double> rates;
    const std::size_t bytes = weights_.front().bytes();
    if (buffer_ == nullptr) {
      buffer_ = std::make_unique<Buffer>(options_.cold ? std::max(bytes, cpu_machine().l3_bytes * 5 / 4) : bytes);
    }
    const auto part = buffer_->span().first(cold ? buffer_->bytes : bytes);
    for (int i = 0; i < (cold ? 5 : 15); ++i) {
      const double start = now();
      const double read = read_bytes(part, threads);
      rates.push_back(read / (now() - start));
    }
    return median(rates);
  }

  void print_limits(int threads) {
    hot_read_ = read_rate(false, threads);
    fmt::print("\nlimits, {} threads: read {:.1f} GB/s of {} KiB again and again", threads, hot_read_ / 1e9,
               weights_.front().bytes() >> 10);
    if (options_.cold) {
      cold_read_ = read_rate(true, threads);
      fmt::print(", {:.1f} GB/s of {} MiB once", cold_read_ / 1e9, buffer_->bytes >> 20);
    }
    for (const CpuIsa isa : cpu_isas()) {
      if (isa <= cpu_machine().best_isa)
        fmt::print("; {} {:.0f} GFLOP/s", to_string(isa), unit_rate(isa, threads) / 1e9);
    }
    fmt::print("\n{:<7}{:>5}{:>5} {:<12}{:>9}{:>8}{:>8}{:>8}{:>10} {}\n", "format", "m", "", "isa", "GFLOP/s", "%unit",
               "%read", "us", "samples", "tactic");
  }

  static double unit_rate(CpuIsa isa, int threads) {
    return rate_of(threads, [&] { return multiply_add_flops(isa, threads); }).per_s;
  }

  Rate sample(Candidate& c, double seconds, int threads) {
    const GemmProblem& p = c.plans.front().problem();
    return rate_of(threads, [&] {
      const double end = now() + seconds;
      double flops = 0;
      do {
        const GemmPlan& plan = c.plans[c.next++ % c.plans.size()];
        const auto r = run_gemm(plan, reinterpret_cast<const Bf16*>(a_->span().data()), p.k, out_->span().data(), p.n,
                                workspace_->span());
        if (!r.ok()) std::abort();
        flops += 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
      } while (now() < end);
      return flops;
    });
  }

  void measure(Fp4Format format, std::int64_t m, int threads, bool cold) {
    const TacticFamily& family = *must(find_tactic_family("cpu"));
    const GemmProblem problem{m, options_.n, options_.k, format, OutputType::kBf16};
    Resources resources;
    resources.threads = threads;
    std::vector<Candidate> candidates;
    std::size_t workspace = 0;
    for (std::size_t i = 0; i < family.size(); ++i) {
      if (family.illegal(i, problem, resources)) continue;
      const Knobs knobs = family.knobs(i);
      const auto knob = [&](std::string_view name) {
        return std::get<std::string>(
            std::find_if(knobs.begin(), knobs.end(), [&](const auto& k) { return k.first == name; })->second);
      };
      const std::string name = family.to_string(i), isa = knob("isa");
      const bool wanted =
          options_.isas.empty() ? isa != "scalar" : std::count(options_.isas.begin(), options_.isas.end(), isa) > 0;
      if (!wanted || name.find(options_.only) == std::string::npos || (threads > 1 && knob("threads") == "one"))
        continue;
      Candidate c{name, isa, {}, 0, {}, {}, 0};
      for (const PreparedWeights& w : weights_) {
        c.plans.push_back(must(plan_gemm(w, m, {name, threads, OutputType::kBf16})));
        if (!cold) break;
      }
      workspace = std::max(workspace, c.plans.front().workspace_bytes());
      candidates.push_back(std::move(c));
    }
    if (candidates.empty()) return;
    a_ = std::make_unique<Buffer>(static_cast<std::size_t>(m * options_.k) * 2);
    out_ = std::make_unique<Buffer>(static_cast<std::size_t>(m * options_.n) * 2);
    workspace_ = std::make_unique<Buffer>(workspace);
    std::mt19937 bits(7);
    std::normal_distribution<float> normal;
    auto* a = reinterpret_cast<Bf16*>(a_->span().data());
    for (std::int64_t i = 0; i < m * options_.k; ++i) a[i] = to_bf16(normal(bits));

    for (const CpuIsa isa : cpu_isas()) report(format, m, cold, to_string(isa), candidates, threads);
  }

  // The best of an instruction set: all briefly, then the three best in turn with their limit, until the time is up.
  void report(Fp4Format format, std::int64_t m, bool cold, std::string_view isa, std::vector<Candidate>& candidates,
              int threads) {
    std::vector<Candidate*> mine;
    for (Candidate& c : candidates) {
      if (c.isa == isa) mine.push_back(&c);
    }
    if (mine.empty()) return;
    std::vector<std::pair<double, Candidate*>> first;
    for (Candidate* c : mine) {
      sample(*c, 0, threads);
      first.emplace_back(-std::max(sample(*c, 0.002, threads).per_s, sample(*c, 0.002, threads).per_s), c);
    }
    std::sort(first.begin(), first.end());
    if (!options_.all && first.size() > 3) first.resize(3);
    const CpuIsa unit = *parse_cpu_isa(isa);
    const double end = now() + options_.seconds * static_cast<double>(first.size());
    do {
      for (const auto& [ignored, c] : first) {
        // The limit on both sides of the kernel, so that what disturbs it is seen there too.
        const auto limit = [&] { return rate_of(threads, [&] { return multiply_add_flops(unit, threads); }); };
        const Rate before = limit(), rate = sample(*c, 0.005, threads), after = limit();
        ++c->taken;
        if (!before.undisturbed || !rate.undisturbed || !after.undisturbed) continue;
        c->rates.push_back(rate.per_s);
        c->limits.push_back((before.per_s + after.per_s) / 2);
      }
    } while (now() < end);
    std::sort(first.begin(), first.end(),
              [](const auto& x, const auto& y) { return median(x.second->rates) > median(y.second->rates); });
    for (const auto& [ignored, c] : first) {
      if (c->rates.empty()) {
        fmt::print("{:<7}{:>5}{:>5} {:<12} all {} samples disturbed by other processes\n", to_string(format), m,
                   cold ? "cold" : "", isa, c->taken);
        break;
      }
      const double rate = median(c->rates);
      const double flops =
          2.0 * static_cast<double>(m) * static_cast<double>(options_.n) * static_cast<double>(options_.k);
      const double read_flops = (cold ? cold_read_ : hot_read_) / static_cast<double>(weights_.front().bytes()) * flops;
      fmt::print("{:<7}{:>5}{:>5} {:<12}{:>9.1f}{:>7.1f}%{:>7.1f}%{:>8.0f}{:>5}/{:<4} {}\n", to_string(format), m,
                 cold ? "cold" : "", isa, rate / 1e9, 100 * rate / median(c->limits), 100 * rate / read_flops,
                 flops / rate * 1e6, c->rates.size(), c->taken, c->tactic);
      if (!options_.all) break;
    }
    std::fflush(stdout);
  }

  Options options_;
  std::vector<PreparedWeights> weights_;
  std::unique_ptr<Buffer> a_, out_, workspace_, buffer_;
  double hot_read_ = 0, cold_read_ = 0;
};

}  // namespace
}  // namespace pinch::bench

int main(int argc, char** argv) {
  pinch::bench::Options o;
  CLI::App app("mm_bf16_fp4 on this CPU beside the limits of the same run");
  app.add_option("-m", o.m, "rows of activations")->delimiter(',');
  app.add_option("-n", o.n, "output channels");
  app.add_option("-k", o.k, "columns");
  app.add_option("--formats", o.formats, "nvfp4, mxfp4")->delimiter(',');
  app.add_option("--isas", o.isas, "instruction sets; all but scalar by default")->delimiter(',');
  app.add_option("--threads", o.threads, "counts to try")->delimiter(',');
  app.add_option("--only", o.only, "tactics whose name contains this");
  app.add_option("--seconds", o.seconds, "of samples for each of the three best tactics");
  app.add_flag("!--no-cold", o.cold, "leave the cold rows out");
  app.add_flag("--all", o.all, "print every tactic");
  CLI11_PARSE(app, argc, argv);
  pinch::bench::Bench(o).run();
}
