#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>

#include "pinch/version.h"
#include "workbench/probe/apart.h"
#include "workbench/probe/cuda_device.h"
#include "workbench/probe/cuda_probe.h"

namespace pinch::probe {
namespace {

constexpr int kRepeats = 7, kIterations = 128, kPairThreads = 512;
constexpr double kIssueLanes = 128;  // four sub-partitions, a warp instruction of 32 lanes a cycle each

// One operation of every thread of the block: as the difference of the two loops, and as a part of the longer one,
// whose counter and branch it holds.
struct Timing {
  int threads = 0, chains = 0;
  double cycles = 0, spread = 0, whole = 0;
};

// A probe or a pair with all its kernels: what is lost together when one of them crashes.
struct Job {
  std::vector<const CudaKernel*> shorter;  // each is followed by its longer one
  [[nodiscard]] bool is_pair() const { return shorter[0]->probes.size() > 1; }
  [[nodiscard]] bool proved() const {
    return std::all_of(shorter.begin(), shorter.end(),
                       [](const CudaKernel* k) { return k->proved() && (k + 1)->proved(); });
  }
  /// The proof of the first kernel, or of the first that failed its own.
  [[nodiscard]] const Proof& proof() const {
    for (const CudaKernel* k : shorter) {
      for (const CudaKernel* each : {k, k + 1}) {
        if (!each->proved()) return each->proofs[0];
      }
    }
    return shorter[0]->proofs[0];
  }
  [[nodiscard]] std::string name() const {
    return is_pair() ? shorter[0]->probes[0]->name + " + " + shorter[0]->probes[1]->name : shorter[0]->probes[0]->name;
  }
};

std::vector<Job> jobs_of(const CudaModule& module) {
  std::vector<Job> jobs;
  for (std::size_t k = 0; k + 1 < module.kernels.size(); k += 2) {
    const CudaKernel& kernel = module.kernels[k];
    if (jobs.empty() || jobs.back().shorter[0]->probes != kernel.probes) jobs.emplace_back();
    jobs.back().shorter.push_back(&kernel);
  }
  return jobs;
}

Result<Timing> time(CudaDevice& device, const CudaKernel& shorter, int threads) {
  const CudaKernel& longer = *(&shorter + 1);
  std::vector<double> cycles, whole;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {  // the first fetches the instructions
    PINCH_ASSIGN(few, device.cycles(shorter.name, threads, kIterations));
    PINCH_ASSIGN(many, device.cycles(longer.name, threads, kIterations));
    if (repeat == 0) continue;
    cycles.push_back((many - few) / (static_cast<double>(kIterations) * (longer.operations - shorter.operations)));
    whole.push_back(many / (static_cast<double>(kIterations) * longer.operations));
  }
  std::sort(cycles.begin(), cycles.end());
  std::sort(whole.begin(), whole.end());
  const double median = cycles[cycles.size() / 2];
  if (median <= 0)
    return Error{ErrorCode::kDevice, "twice the operations took no more cycles: the clock is not to be trusted",
                 shorter.name};
  // Without the least and the most: one disturbed launch of seven is not the device's spread.
  return Timing{threads, shorter.chains, median, (cycles[cycles.size() - 2] - cycles[1]) / median,
                whole[whole.size() / 2]};
}

// What the latency is of, where the chain is not of one opcode: "rcp" cannot be fed back without an addition.
std::string of_chain(const CudaProbe& probe, const CudaKernel& kernel) {
  const Proof& proof = kernel.proofs[0];
  if (proof.of_also > 0) return fmt::format("; the mean of a chain of {} and {}", probe.opcode, probe.also);
  const bool computes = probe.chain == Chain::kInteger || probe.chain == Chain::kFloat ||
                        probe.chain == Chain::kDouble || (probe.chain == Chain::kProduct && probe.per_op > 1);
  if (!computes || 2 * proof.others < kernel.operations) return "";
  return fmt::format("; of the whole chain, with {}", proof.instead);
}

std::vector<int> threads_of(const CudaKernel& kernel) {
  if (kernel.probes.size() > 1) return {kPairThreads};
  std::vector<int> counts = kernel.thread_counts();
  // One warp is for latency, which one chain shows.
  if (counts.size() > 1 && kernel.chains > 1) counts.erase(counts.begin());
  return counts;
}

// "threads chains cycles spread whole", a line a timing.
Result<std::string> run_job(CudaDevice& device, const Job& job) {
  std::string lines;
  for (const CudaKernel* kernel : job.shorter) {
    for (const int threads : threads_of(*kernel)) {
      PINCH_ASSIGN(timing, time(device, *kernel, threads));
      lines +=
          fmt::format("{} {} {} {} {}\n", timing.threads, timing.chains, timing.cycles, timing.spread, timing.whole);
    }
  }
  return lines;
}

std::vector<Timing> timings_from(const std::string& lines) {
  std::vector<Timing> timings;
  std::istringstream stream(lines);
  for (Timing t; stream >> t.threads >> t.chains >> t.cycles >> t.spread >> t.whole;) timings.push_back(t);
  return timings;
}

class Assembly {
 public:
  Assembly(const CudaModule& module, const CudaAbout& about) {
    model_.name = model_.arch = module.arch;
    model_.device = about.name;
    model_.date = today();
    model_.tools = {
        {"pinch", std::string(version())},
        {"ptxas", module.ptxas},
        {module.nvdisasm.empty() ? "names" : "nvdisasm", module.nvdisasm.empty() ? module.names : module.nvdisasm},
        {"driver", about.driver.empty() ? "unknown" : about.driver},
        {"CUDA", fmt::format("{}.{}", about.cuda / 1000, about.cuda % 1000 / 10)}};
  }

  void add(const Job& job, const Result<std::string>& run) {
    const auto timings = run ? timings_from(*run) : std::vector<Timing>();
    std::string mark;
    if (!job.proved()) {
      mark = "not proved, so not run";
    } else if (!run) {
      mark = "not measured: " + run.error().message();
    }
    job.is_pair() ? pair(job, timings, mark) : single(job, timings, mark);
  }

  Model finish() {
    group_by_overlap(model_);
    return std::move(model_);
  }

 private:
  void single(const Job& job, const std::vector<Timing>& timings, const std::string& mark) {
    const CudaProbe& probe = *job.shorter[0]->probes[0];
    std::optional<Timing> best, latency, alone;
    // By the whole of a loop, which is never faster than the unit. The best difference would be the luckiest: where the
    // longer loop hides more of its branch than the shorter one, it is up to 2% too good (H200).
    const auto better = [](const Timing& t, const std::optional<Timing>& than) {
      return !than || t.threads / t.whole > than->threads / than->whole;
    };
    for (const Timing& t : timings) {
      if (better(t, best)) best = t;
      if (t.chains == 1 && (!latency || t.threads < latency->threads)) latency = t;
      // With the chains that fill the unit: a mix has twice as many in flight.
      if (t.threads == kPairThreads && better(t, alone)) alone = t;
    }
    if (alone) alone_.try_emplace(probe.name, alone->cycles);
    const auto entry = [&](const std::string& name, const char* unit, const std::optional<Timing>& t, double factor,
                           bool is_rate) {
      Entry made;
      made.name = name;
      made.opcode = probe.opcode;
      if (job.shorter[0]->proofs[0].of_also > 0) made.also = probe.also;
      made.unit = unit;
      made.proved = job.proved();
      made.proof = to_string(job.proof());
      made.mark = mark;
      made.method = fmt::format("loops of {} and {} operations on one SM by clock64, median of {}",
                                job.shorter[0]->operations, (job.shorter[0] + 1)->operations, kRepeats);
      if (t) {
        made.value = is_rate ? factor * t->threads / t->cycles : t->cycles / factor;
        made.spread = t->spread;
        made.method += fmt::format("; {} chain{}, {} thread{}", t->chains, t->chains == 1 ? "" : "s", t->threads,
                                   t->threads == 1 ? "" : "s");
        mark_spread(made);
      }
      state_origin(made, model_);
      model_.entries.push_back(std::move(made));
    };
    switch (probe.chain) {
      case Chain::kWarpgroup:  // four warps, or a block, do it together: its cycles are what it has
      case Chain::kBarrier:
        entry(probe.name, "cycles", latency, 1, false);
        break;
      case Chain::kBulk:
        entry(probe.name, "bytes/clk/SM", best, probe.bytes, true);
        entry(probe.name + ".latency", "cycles", latency, 1, false);
        break;
      default:
        entry(probe.name, "lanes/clk/SM", best, probe.per_op, true);
        if (probe.opcode.rfind("ST", 0) != 0) {
          // Of one of those that are chained, if they are of one opcode.
          entry(probe.name + ".latency", "cycles", latency, probe.chained, false);
          model_.entries.back().proof += of_chain(probe, *job.shorter[0]);
        }
    }
  }

  void pair(const Job& job, const std::vector<Timing>& timings, const std::string& mark) {
    const CudaKernel& kernel = *job.shorter[0];
    const CudaProbe &a = *kernel.probes[0], &b = *kernel.probes[1];
    const auto first = alone_.find(a.name), second = alone_.find(b.name);
    Overlap made;
    made.first = a.name;
    made.second = b.name;
    made.proved = job.proved();
    made.mark = mark;
    if (first == alone_.end() || second == alone_.end()) {
      if (made.mark.empty()) made.mark = "one of the two was not measured alone";
    } else if (!timings.empty()) {
      // The mix holds half of each. It cannot be done sooner than its slower half, nor than its instructions are
      // issued.
      const double both = (first->second + second->second) / 2;
      const int slots =
          kernel.proofs[0].found + (a.opcode == b.opcode ? 0 : kernel.proofs[1].found) + kernel.proofs[0].others;
      const double issue = kPairThreads / kIssueLanes * slots / kernel.operations;
      made.overlap = both / timings[0].cycles;
      made.most = both / std::max({first->second / 2, second->second / 2, issue});
      made.spread = timings[0].spread;
      mark_spread(made);
      for (std::size_t p = 0; p < kernel.proofs.size(); ++p) {
        if (kernel.proofs[p].of_also > 0) mark_mix(made, *kernel.probes[p]);
      }
    }
    model_.pairs.push_back(std::move(made));
  }

  // Two units take turns: the overlap of their mix with a third says nothing of either.
  static void mark_mix(Overlap& pair, const CudaProbe& probe) {
    pair.mark = fmt::format("{} is a mix of {} and {}: decides nothing", probe.name, probe.opcode, probe.also);
  }

  Model model_;
  std::map<std::string, double> alone_;  // cycles of one operation, at the threads of pairs
};

}  // namespace

Result<Model> measure_cuda(const CudaModule& module, const CudaOptions& options, const OpenCudaDevice& open) {
  // CUDA is only ever begun in the child: a process that has forked after cuInit can use it in neither half.
  std::unique_ptr<CudaDevice> device;
  const auto opened = [&]() -> Result<void> {
    if (device != nullptr) return {};
    PINCH_ASSIGN(made, open());
    device = std::move(made);
    return {};
  };
  const auto described = run_apart(
      1,
      [&](int) -> Result<std::string> {
        PINCH_TRY(opened());
        const CudaAbout& of = device->about();
        return fmt::format("{} {} {}\n{}", of.sm, of.cuda, of.driver, of.name);
      },
      options.deadline_s, [](int) {});
  if (!described[0]) return described[0].error();
  CudaAbout about;
  std::istringstream text(*described[0]);
  text >> about.sm >> about.cuda;
  text.ignore();
  std::getline(text, about.driver);
  std::getline(text, about.name);
  if (about.sm != std::atoi(module.arch.c_str() + 3))
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("the device is an sm_{}, the probes are for {}; give --arch of the device", about.sm, module.arch),
        about.name};

  const std::vector<Job> jobs = jobs_of(module);
  const auto total = static_cast<double>(jobs.size());
  const auto runs = run_apart(
      static_cast<int>(jobs.size()),
      [&](int item) -> Result<std::string> {
        const Job& job = jobs[static_cast<std::size_t>(item)];
        if (!job.proved()) return std::string();
        if (device == nullptr) {
          PINCH_TRY(opened());
          PINCH_TRY(device->load(*module.cubin));
        }
        return run_job(*device, job);
      },
      options.deadline_s,
      [&](int item) {
        if (options.progress) options.progress(item, total, jobs[static_cast<std::size_t>(item)].name());
      });
  Assembly assembly(module, about);
  for (std::size_t j = 0; j < jobs.size(); ++j) assembly.add(jobs[j], runs[j]);
  return assembly.finish();
}

}  // namespace pinch::probe
