#include "workbench/probe/cpu_probe.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

#include "pinch/version.h"
#include "workbench/measure/add_chain.h"
#include "workbench/pattern/pattern.h"

namespace pinch::probe {
namespace {

constexpr int kLength = 48;  // a multiple of 1, 2, 4, 8, 12 and 16 chains; twice that fits every micro-operation cache
constexpr int kGroups = 7;
constexpr double kSampleNs = 12000;  // 300 times the cost of reading the clock
constexpr std::int64_t kAdditions = 32768;
constexpr std::size_t kBufferBytes = std::size_t{2} * kLength * kVectorBytes;

struct Buffer {
  explicit Buffer(std::size_t size) : bytes(size + 4096), memory(new std::uint8_t[size + 4096]) {
    std::memset(memory.get(), 0x3f, bytes);  // floats of about 0.75
    data = reinterpret_cast<std::uint8_t*>((reinterpret_cast<std::uintptr_t>(memory.get()) + 4095) / 4096 * 4096);
  }
  std::size_t bytes;
  std::unique_ptr<std::uint8_t[]> memory;
  std::uint8_t* data;
};

double time_ns(const CpuLoop& loop, std::int64_t iterations, void* buffer, measure::Clock& clock) {
  const double start = clock.wall_ns();
  loop.run(iterations, buffer);
  return clock.wall_ns() - start;
}

std::string cpu_name() {
#if defined(__x86_64__)
  unsigned words[12] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    if (__get_cpuid(0x80000002 + leaf, &words[4 * leaf], &words[4 * leaf + 1], &words[4 * leaf + 2],
                    &words[4 * leaf + 3]) == 0)
      return "unknown";
  }
  std::string name(reinterpret_cast<const char*>(words), sizeof words);
  name.resize(std::min(name.size(), name.find('\0')));
  while (!name.empty() && name.back() == ' ') name.pop_back();
  unsigned a = 0, b = 0, c = 0, d = 0;
  __get_cpuid(1, &a, &b, &c, &d);
  const unsigned base = a >> 8 & 15, family = base == 15 ? base + (a >> 20 & 255) : base;
  return fmt::format("{} (family {} model {} stepping {})", name, family, (a >> 4 & 15) | (a >> 12 & 0xf0), a & 15);
#else
  return "unknown";
#endif
}

// The clock, and how often it was seen to go backwards: a guest's may.
class WatchedClock final : public measure::Clock {
 public:
  explicit WatchedClock(measure::Clock& clock) : clock_(clock) {}
  double wall_ns() override {
    const double now = clock_.wall_ns();
    steps_back_ += now < last_;
    return last_ = now;
  }
  double cpu_ns() override { return clock_.cpu_ns(); }
  [[nodiscard]] int steps_back() const { return steps_back_; }

 private:
  measure::Clock& clock_;
  double last_ = -std::numeric_limits<double>::infinity();
  int steps_back_ = 0;
};

class CpuRun {
 public:
  CpuRun(const CpuOptions& options, measure::Clock& clock) : options_(options), clock_(clock), buffer_(kBufferBytes) {
    model_.name = "cpu";
    model_.device = cpu_name();
    model_.date = today();
    model_.tools = {{"pinch", std::string(version())}, {"Zydis", assembler_version()}};
    repeats_ = options.quick ? 6 : 20;
  }

  Result<Model> run() {
    PINCH_ASSIGN(only, Pattern::compile(options_.only, "--only"));
    std::vector<const CpuProbe*> chosen;
    for (const CpuProbe& probe : cpu_probes()) {
      if (only.found_in(probe.name)) chosen.push_back(&probe);
    }
    if (chosen.empty()) {
      std::string names;
      for (const CpuProbe& probe : cpu_probes()) names += (names.empty() ? "" : " ") + probe.name;
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("no CPU probe matches --only '{}'; there are {}", options_.only, names), ""};
    }
    total_ = static_cast<double>(chosen.size() + (options_.pairs ? cpu_pairs().size() : 0)) + 4;
    clocks();
    for (const CpuProbe* probe : chosen) {
      progress(probe->name);
      if (!runs_here(*probe)) continue;
      PINCH_TRY(one(*probe));
    }
    for (const auto& [a, b] : cpu_pairs()) {
      if (!options_.pairs) break;
      if (!only.found_in(a) || !only.found_in(b)) continue;
      progress(a + " + " + b);
      PINCH_TRY(pair(a, b));
    }
    if (options_.only.empty()) {
      PINCH_TRY(memory());
    }
    group_by_overlap(model_);
    return std::move(model_);
  }

 private:
  void progress(const std::string& what) {
    if (options_.progress) options_.progress(done_, total_, what);
    ++done_;
  }

  Entry entry(const std::string& name, const std::string& unit, const std::string& method) const {
    Entry made;
    made.name = name;
    made.unit = unit;
    made.method = method;
    state_origin(made, model_);
    return made;
  }

  // The entry with its figure, which is none where its proof failed or the clock made no sense of it; and with what
  // spoils it. `steps`: the clock's steps back before it was measured.
  void keep(Entry made, const Result<Cycles>& figure, int steps) {
    if (!made.proved && !made.opcode.empty()) {
      made.mark = "not proved, so not run";
    } else if (!figure) {
      made.mark = "not measured: " + figure.error().message();
    } else {
      if (figure->value > 0 && std::isfinite(figure->value)) made.value = figure->value;
      made.spread = std::isfinite(figure->spread) ? std::max(figure->spread, 0.0) : 1;
      mark_spread(made);
    }
    if (clock_.steps_back() > steps) made.mark = "the clock went backwards while it was measured";
    model_.entries.push_back(std::move(made));
  }

  // The core's rate by the chain, the time stamp counter's by the clock, and whether both go forward.
  void clocks() {
    progress("clocks");
    const int steps = clock_.steps_back();
    measure::AddChain chain(clock_);
    std::vector<double> ghz, tsc;
    bool forward = true;
    for (int i = 0; i < 9; ++i) {
      const double start = clock_.wall_ns();
#if defined(__x86_64__)
      const std::uint64_t first = __rdtsc();
      ghz.push_back(chain.ghz());
      const std::uint64_t last = __rdtsc();
#else
      const std::uint64_t first = 0, last = 0;
      ghz.push_back(chain.ghz());
#endif
      const double ns = clock_.wall_ns() - start;
      forward = forward && ns > 0 && last > first;
      tsc.push_back(static_cast<double>(last - first) / ns);
    }
    const auto add = [&](const char* name, std::vector<double>& values, const char* unit, const char* method) {
      std::sort(values.begin(), values.end());
      Entry made = entry(name, unit, method);
      made.proof = "no instruction: a clock";
      keep(made, Cycles{values[values.size() / 2], values.back() / values.front() - 1}, steps);
      if (!forward) model_.entries.back().mark = "the time stamp counter or the clock went backwards";
    };
    std::vector<double> ratio;
    for (std::size_t i = 0; i < ghz.size(); ++i) ratio.push_back(ghz[i] / tsc[i]);
    add("clock.core", ghz, "GHz", "dependent additions, one a cycle, over the monotonic clock");
    add("clock.tsc", tsc, "GHz", "time stamp counter over the monotonic clock");
    add("clock.core_per_tsc", ratio, "ratio", "cycles of the addition chain a tick of the time stamp counter");
  }

  // All loops of a probe count or none: a figure is the best of them.
  Result<void> one(const CpuProbe& probe) {
    const Form form = probe.operation.form;
    std::vector<CpuLoops> loops;
    for (const int chains : chain_counts(probe)) {
      PINCH_ASSIGN(made, assemble_loops({{probe.operation, chains}}, kLength, options_.assemble));
      loops.push_back(std::move(made));
    }
    const auto failed = std::find_if(loops.begin(), loops.end(), [](const CpuLoops& l) { return !l.proved(); });
    const bool proved = failed == loops.end();
    const int steps = clock_.steps_back();
    Result<Cycles> best = Error{}, alone = Error{};
    const CpuLoops* of_best = &loops[0];
    for (std::size_t i = 0; proved && i < loops.size(); ++i) {
      prepare(probe);
      const auto cycles = options_.time(loops[i], buffer_.data, repeats_, clock_);
      if (i == 0) alone = best = cycles;
      if (!cycles || (best && i > 0 && cycles->value >= best->value)) continue;
      best = cycles;
      of_best = &loops[i];
    }
    const auto add = [&](const std::string& name, const char* unit, const Result<Cycles>& figure, const CpuLoops& of) {
      const int chains = of.parts[0].chains;
      Entry made =
          entry(name, unit,
                fmt::format("loops of {} and {} instructions, the least of {} repeats of each over that of the "
                            "dependent additions between them, the median of {} such groups; {} chain{}",
                            kLength, 2 * kLength, repeats_, kGroups, chains, chains == 1 ? "" : "s"));
      made.opcode = probe.operation.mnemonic;
      made.proved = proved;
      made.proof = to_string((proved ? of : *failed).proofs[0]);
      keep(std::move(made), figure, steps);
    };
    Result<Cycles> rate = best;
    if (rate) rate->value = 1 / rate->value;
    if (form != Form::kChase) add(probe.name, "instructions/cycle/core", rate, *of_best);
    if (form != Form::kLoad && form != Form::kStore && form != Form::kStream)
      add(probe.name + ".latency", "cycles", alone, loops[0]);
    return {};
  }

  // What a chase follows: here one address that holds itself.
  void prepare(const CpuProbe& probe) {
    if (probe.operation.form != Form::kChase) return;
    void* self = buffer_.data;
    std::memcpy(buffer_.data, &self, sizeof self);
  }

  static std::vector<int> chain_counts(const CpuProbe& probe) {
    if (probe.operation.form == Form::kChase) return {1};
    return {1, 2, 4, 8, most_chains(probe.operation.bits)};
  }

  Result<void> pair(const std::string& a, const std::string& b) {
    const auto find = [](const std::string& name) {
      return std::find_if(cpu_probes().begin(), cpu_probes().end(), [&](const CpuProbe& p) { return p.name == name; });
    };
    const auto first = find(a), second = find(b);
    if (first == cpu_probes().end() || second == cpu_probes().end() || !runs_here(*first) || !runs_here(*second))
      return {};
    // Each alone in all the chains that there are, and the mix as the best of three ways to share them: of four cycles
    // of latency, six chains cannot fill two units.
    constexpr int kFew = 4;
    const int chains = most_chains(first->operation.bits);
    std::vector<std::vector<Part>> wanted = {{{first->operation, chains}}, {{second->operation, chains}}};
    for (const int share : {chains / 2, chains - kFew, kFew})
      wanted.push_back({{first->operation, share}, {second->operation, chains - share}});
    std::vector<CpuLoops> loops;
    for (std::vector<Part>& parts : wanted) {
      PINCH_ASSIGN(assembled, assemble_loops(std::move(parts), kLength, options_.assemble));
      loops.push_back(std::move(assembled));
    }
    Overlap made;
    made.first = a;
    made.second = b;
    made.proved = std::all_of(loops.begin(), loops.end(), [](const CpuLoops& l) { return l.proved(); });
    const int steps = clock_.steps_back();
    if (made.proved) {
      const auto time = [&](std::size_t which) { return options_.time(loops[which], buffer_.data, repeats_, clock_); };
      const auto of_a = time(0), of_b = time(1);
      Result<Cycles> mixed = time(2);
      for (std::size_t way = 3; way < loops.size(); ++way) {
        const auto again = time(way);
        if (again && (!mixed || again->value < mixed->value)) mixed = again;
      }
      if (of_a && of_b && mixed) {  // the mix holds half of each
        const double both = of_a->value + of_b->value;
        made.overlap = both / 2 / mixed->value;
        made.most = both / std::max(of_a->value, of_b->value);
        made.spread = std::max({of_a->spread, of_b->spread, mixed->spread});
        mark_spread(made);
      } else {
        made.mark = "not measured: " + (!of_a ? of_a : !of_b ? of_b : mixed).error().message();
      }
    } else {
      made.mark = "not proved, so not run";
    }
    if (clock_.steps_back() > steps) made.mark = "the clock went backwards while it was measured";
    model_.pairs.push_back(std::move(made));
    return {};
  }

  // Reads by size: how fast lines come, and how long one takes.
  Result<void> memory() {
    const auto level = [](int name, std::size_t otherwise) {
      const long size = ::sysconf(name);
      return size > 0 ? static_cast<std::size_t>(size) : otherwise;
    };
    struct Level {
      const char* name;
      std::size_t bytes;
    };
    const std::size_t l1 = level(_SC_LEVEL1_DCACHE_SIZE, 32768), l2 = level(_SC_LEVEL2_CACHE_SIZE, 1 << 20),
                      l3 = level(_SC_LEVEL3_CACHE_SIZE, 32 << 20);
    std::vector<Level> levels{{"l1", l1 / 2}, {"l2", l2 / 2}};
    if (!options_.quick) {
      levels.push_back({"l3", std::clamp<std::size_t>(l3 / 4, 4 * l2, 64 << 20)});
      levels.push_back({"dram", std::clamp<std::size_t>(2 * l3, 128 << 20, 1 << 30)});
    }
    for (const Level& where : levels) {
      progress(std::string("memory ") + where.name);
      PINCH_TRY(reads(where.name, where.bytes));
      PINCH_TRY(chases(where.name, where.bytes));
    }
    return {};
  }

  Result<void> reads(const std::string& name, std::size_t bytes) {
    const bool wide = __builtin_cpu_supports("avx512f") != 0;
    const CpuOperation stream{"vmovups", Form::kStream, wide ? 512 : 256};
    constexpr int kLoads = 16;
    const Part part{stream, wide ? 16 : 8};
    PINCH_ASSIGN(loop, options_.assemble({&part, 1}, kLoads));
    const Proof proof = prove(loop.bytes(), part, kLoads);
    const std::size_t step = std::size_t{kLoads} * kVectorBytes, passes = std::max<std::size_t>(1, (1 << 22) / bytes);
    Buffer memory(bytes + step);
    const auto iterations = static_cast<std::int64_t>(bytes / step);
    const int steps = clock_.steps_back();
    std::vector<double> gbps;
    for (int repeat = 0; proof.proved() && repeat < 7; ++repeat) {
      const double start = clock_.wall_ns();
      for (std::size_t pass = 0; pass < passes; ++pass) loop.run(iterations, memory.data);
      const double moved = static_cast<double>(passes) * static_cast<double>(iterations) * kLoads * (wide ? 64 : 32);
      if (repeat > 0) gbps.push_back(moved / (clock_.wall_ns() - start));
    }
    std::sort(gbps.begin(), gbps.end());
    Entry made = entry(
        "read." + name, "GB/s",
        fmt::format("loads of {} bits over {} KiB, the fastest of 6 passes after one", stream.bits, bytes / 1024));
    made.opcode = "vmovups";
    made.proved = proof.proved();
    made.proof = to_string(proof);
    keep(std::move(made),
         gbps.empty() ? Result<Cycles>(Error{}) : Cycles{gbps.back(), gbps.back() / gbps[gbps.size() / 2] - 1}, steps);
    return {};
  }

  Result<void> chases(const std::string& name, std::size_t bytes) {
    constexpr std::size_t kLine = 64;
    const std::size_t lines = bytes / kLine;
    Buffer memory(bytes);
    std::vector<std::uint32_t> order(lines);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    for (std::size_t i = 0; i < lines; ++i) {
      void* next = memory.data + std::size_t{order[(i + 1) % lines]} * kLine;
      std::memcpy(memory.data + std::size_t{order[i]} * kLine, &next, sizeof next);
    }
    const Part part{{"mov", Form::kChase, 64}, 1};
    PINCH_ASSIGN(loop, options_.assemble({&part, 1}, kLength));
    const Proof proof = prove(loop.bytes(), part, kLength);
    const auto iterations = static_cast<std::int64_t>(std::min<std::size_t>(lines, 400000) / kLength + 1);
    const int steps = clock_.steps_back();
    measure::AddChain chain(clock_);
    std::vector<double> cycles;
    for (int repeat = 0; proof.proved() && repeat < 5; ++repeat) {
      const double ns = time_ns(loop, iterations, memory.data + std::size_t{order[0]} * kLine, clock_);
      if (repeat > 0) cycles.push_back(ns * chain.ghz() / (static_cast<double>(iterations) * kLength));
    }
    std::sort(cycles.begin(), cycles.end());
    Entry made =
        entry("read." + name + ".latency", "cycles",
              fmt::format("a random chain through the lines of {} KiB, pages as the system gives them, the least of 4 "
                          "passes after one",
                          bytes / 1024));
    made.opcode = "mov";
    made.proved = proof.proved();
    made.proof = to_string(proof);
    keep(std::move(made),
         cycles.empty() ? Result<Cycles>(Error{})
                        : Cycles{cycles.front(), cycles[cycles.size() / 2] / cycles.front() - 1},
         steps);
    return {};
  }

  const CpuOptions& options_;
  WatchedClock clock_;
  Buffer buffer_;
  Model model_;
  int repeats_ = 20;
  double done_ = 0, total_ = 1;
};

}  // namespace

Result<Model> measure_cpu(const CpuOptions& options, measure::Clock& clock) {
  return CpuRun(options, clock).run();
}

bool CpuLoops::proved() const {
  return std::all_of(proofs.begin(), proofs.end(), [](const Proof& p) { return p.proved(); });
}

Result<CpuLoops> assemble_loops(std::vector<Part> parts, int length, const Assemble& assemble) {
  PINCH_ASSIGN(once, assemble(parts, length));
  PINCH_ASSIGN(twice, assemble(parts, 2 * length));
  const int each = length / static_cast<int>(parts.size());
  std::vector<Proof> proofs;
  for (const Part& part : parts) {
    const Proof shorter = prove(once.bytes(), part, each), longer = prove(twice.bytes(), part, 2 * each);
    proofs.push_back(shorter.proved() ? longer.proved() ? shorter : longer : shorter);
  }
  return CpuLoops{std::move(parts), length, std::move(once), std::move(twice), std::move(proofs)};
}

Result<Cycles> time_loops(const CpuLoops& loops, void* buffer, int repeats, measure::Clock& clock) {
  const CpuLoop &once = loops.once, &twice = loops.twice;
  const int length = loops.length;
  constexpr std::int64_t kTrial = 64;
  static_cast<void>(time_ns(once, kTrial, buffer, clock));
  const double trial = time_ns(once, kTrial, buffer, clock) / kTrial;
  const auto iterations =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(kSampleNs / std::max(trial, 1.0)), 16, 1 << 16);
  // A loop counts where the additions just before and after it agree: it then ran at their clock rate. What is left can
  // only be too slow, so the least of a group is taken, of the additions too: a loop over its own two would count the
  // luckiest, whose additions were disturbed alike.
  constexpr double kSteady = 1.02, kNone = std::numeric_limits<double>::infinity();
  const auto additions = [&] {
    const double start = clock.wall_ns();
    measure::run_add_chain(kAdditions);
    return (clock.wall_ns() - start) / kAdditions;
  };
  std::vector<double> groups;
  for (int group = 0; group < kGroups; ++group) {
    double few = kNone, many = kNone, cycle = kNone;
    for (int repeat = 0; repeat < repeats || (repeat < 4 * repeats && (few == kNone || many == kNone)); ++repeat) {
      double before = additions();
      for (const bool longer : {false, true}) {
        const double ns = time_ns(longer ? twice : once, iterations, buffer, clock);
        const double after = additions();
        if (std::max(before, after) <= kSteady * std::min(before, after)) {
          double& least = longer ? many : few;
          least = std::min(least, ns);
          cycle = std::min({cycle, before, after});
        }
        before = after;
      }
    }
    if (few == kNone || many == kNone)
      return Error{ErrorCode::kUnsupported, "the clock rate never held still for 30 us; measure on a quieter machine",
                   ""};
    groups.push_back((many - few) / cycle / (static_cast<double>(iterations) * length));
  }
  std::sort(groups.begin(), groups.end());
  const double value = groups[groups.size() / 2];
  if (value <= 0)
    return Error{ErrorCode::kUnsupported,
                 "twice the instructions took no more time: the clock is not to be trusted here", ""};
  // Without the least and the most: one disturbed group of seven is not the core's spread, as on a GPU.
  return Cycles{value, (groups[kGroups - 2] - groups[1]) / value};
}

}  // namespace pinch::probe
