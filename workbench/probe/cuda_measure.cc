#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "workbench/probe/cuda_device.h"
#include "workbench/probe/cuda_probe.h"

namespace pinch::probe {
namespace {

constexpr int kRepeats = 7, kIterations = 64, kWarp = 32, kWarpgroup = 128;
constexpr int kThreadCounts[] = {128, 256, 512, 1024};

struct Timed {
  double cycles = 0;  // of one operation of every thread of the block
  double spread = 0;
};

class CudaRun {
 public:
  CudaRun(const CudaModule& module, const CudaOptions& options, CudaDevice& device)
      : module_(module), options_(options), device_(device) {
    model_.name = module.arch;
    model_.device = device.name();
    model_.date = today();
    model_.tools = {{"ptxas", module.ptxas}, {"driver", fmt::format("{}", device.driver())}, {"names", module.names}};
  }

  Result<Model> run() {
    std::map<std::string, double> cycles_alone;  // of one operation, at the threads and chains of pairs
    std::vector<const CudaKernel*> shorter;
    for (std::size_t k = 0; k + 1 < module_.kernels.size(); k += 2) shorter.push_back(&module_.kernels[k]);
    double done = 0;
    const CudaProbe* last = nullptr;
    Best best;
    for (const CudaKernel* kernel : shorter) {
      const bool single = kernel->probes.size() == 1;
      if (options_.progress) options_.progress(done++, static_cast<double>(shorter.size()), kernel->probes[0]->name);
      if (last != nullptr && (!single || kernel->probes[0] != last)) {
        report(*last, best);
        best = {};
      }
      last = single ? kernel->probes[0] : nullptr;
      if (single) {
        PINCH_TRY(one(*kernel, *(kernel + 1), best, cycles_alone));
      } else {
        PINCH_TRY(pair(*kernel, *(kernel + 1), cycles_alone));
      }
    }
    if (last != nullptr) report(*last, best);
    group_by_overlap(model_);
    return std::move(model_);
  }

 private:
  struct Best {
    std::optional<Timed> latency, rate;
    int chains = 0, threads = 0;
    Proof proof;
    bool proved = true, ran = false;
  };

  Result<Timed> time(const CudaKernel& shorter, const CudaKernel& longer, int threads) {
    std::vector<double> cycles;
    for (int repeat = 0; repeat <= kRepeats; ++repeat) {
      PINCH_ASSIGN(few, device_.cycles(shorter.name, threads, kIterations));
      PINCH_ASSIGN(many, device_.cycles(longer.name, threads, kIterations));
      if (repeat > 0)
        cycles.push_back((many - few) / (static_cast<double>(kIterations) * (longer.operations - shorter.operations)));
    }
    std::sort(cycles.begin(), cycles.end());
    const double median = cycles[cycles.size() / 2];
    // The quartiles: one disturbed launch of seven is not the device's spread.
    return Timed{median, median > 0 ? (cycles[cycles.size() - 2] - cycles[1]) / median : 1};
  }

  Result<void> one(const CudaKernel& shorter, const CudaKernel& longer, Best& best,
                   std::map<std::string, double>& alone) {
    const CudaProbe& probe = *shorter.probes[0];
    best.ran = true;
    if (best.proof.expected == 0) best.proof = shorter.proofs[0];
    if (!shorter.proved() || !longer.proved()) {
      best.proved = false;
      best.proof = shorter.proved() ? longer.proofs[0] : shorter.proofs[0];
      return {};
    }
    if (shorter.chains == 1) {
      PINCH_ASSIGN(timed, time(shorter, longer, probe.chain == 'w' ? kWarpgroup : kWarp));
      best.latency = timed;
    }
    for (const int threads : kThreadCounts) {
      if (threads > shorter.most_threads()) break;
      PINCH_ASSIGN(timed, time(shorter, longer, threads));
      if (timed.cycles <= 0) continue;
      const double rate = threads / timed.cycles;
      if (shorter.chains == kPairChains && threads == kPairThreads) alone[probe.name] = timed.cycles;
      if (best.rate && rate <= best.threads / best.rate->cycles) continue;
      best.rate = timed;
      best.chains = shorter.chains;
      best.threads = threads;
    }
    return {};
  }

  void report(const CudaProbe& probe, const Best& best) {
    if (!best.ran) return;
    const auto add = [&](const std::string& name, const char* unit, std::optional<double> value, double spread,
                         const std::string& where) {
      Entry made;
      made.name = name;
      made.opcode = probe.opcode;
      made.unit = unit;
      made.proved = best.proved;
      made.proof = to_string(best.proof);
      if (best.proved) made.value = value;
      made.spread = spread;
      made.method =
          fmt::format("loops of 64 and 128 operations on one SM by clock64, median of {}; {}", kRepeats, where);
      made.source =
          fmt::format("{}, driver {}, ptxas {}, {}", model_.device, device_.driver(), module_.ptxas, model_.date);
      mark_spread(made);
      model_.entries.push_back(std::move(made));
    };
    if (probe.chain == 'w' || probe.chain == 's') {  // a product of four warps, or a barrier: cycles are what it has
      add(probe.name, "cycles", best.rate ? std::optional(best.rate->cycles) : std::nullopt,
          best.rate ? best.rate->spread : 0, fmt::format("a whole operation, {} threads", best.threads));
      return;
    }
    std::optional<double> rate, latency;
    if (best.rate) rate = best.threads * probe.per_op / best.rate->cycles;
    if (best.latency && best.latency->cycles > 0) latency = best.latency->cycles;
    add(probe.name, "lanes/clk/SM", rate, best.rate ? best.rate->spread : 0,
        fmt::format("{} chains, {} threads", best.chains, best.threads));
    const bool stores = probe.opcode.rfind("ST", 0) == 0;
    if (!stores)
      add(probe.name + ".latency", "cycles", latency, best.latency ? best.latency->spread : 0,
          "1 chain, 1 warp, whole operation");
  }

  Result<void> pair(const CudaKernel& shorter, const CudaKernel& longer, const std::map<std::string, double>& alone) {
    const CudaProbe &a = *shorter.probes[0], &b = *shorter.probes[1];
    const auto first = alone.find(a.name), second = alone.find(b.name);
    if (first == alone.end() || second == alone.end() || !shorter.proved() || !longer.proved()) return {};
    PINCH_ASSIGN(timed, time(shorter, longer, kPairThreads));
    if (timed.cycles <= 0) return {};
    // The mix holds half of each.
    const double both = first->second + second->second;
    model_.pairs.push_back(
        {a.name, b.name, both / 2 / timed.cycles, both / std::max(first->second, second->second), timed.spread, true});
    return {};
  }

  static constexpr int kPairChains = 4, kPairThreads = 512;
  const CudaModule& module_;
  const CudaOptions& options_;
  CudaDevice& device_;
  Model model_;
};

}  // namespace

Result<Model> measure_cuda(const CudaModule& module, const CudaOptions& options) {
  PINCH_ASSIGN(device, CudaDevice::open());
  if (device->sm() != std::atoi(module.arch.c_str() + 3))
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the device is an sm_{}, the probes are for {}; give --arch of the device", device->sm(),
                             module.arch),
                 device->name()};
  PINCH_TRY(device->load(*module.cubin));
  return CudaRun(module, options, *device).run();
}

}  // namespace pinch::probe
