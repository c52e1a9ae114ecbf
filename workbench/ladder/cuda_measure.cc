#include "workbench/ladder/cuda_measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "pinch/gemm_cuda.h"
#include "pinch/version.h"
#include "workbench/cuda/launches.h"
#include "workbench/cuda/operands.h"
#include "workbench/ladder/code.h"
#include "workbench/store/binary_hash.h"

namespace pinch::ladder {

namespace {

/// The best of a few replays: what the device can do at most.
Result<double> best_ns(const cuda::Timer& timer, measure::Protocol protocol,
                       const std::function<Result<void>(cudaStream_t)>& work) {
  constexpr int kReplays = 5;
  PINCH_ASSIGN(graph, timer.capture(work));
  double best = 0;
  for (int i = 0; i < kReplays; ++i) {
    PINCH_ASSIGN(ns, protocol == measure::Protocol::kCold ? timer.cold_ns(graph) : timer.warm_ns(graph));
    best = i == 0 ? ns : std::min(best, ns);
  }
  return best;
}

}  // namespace

Machine describe_device(const cuda::Device& device) {
  Machine machine;
  machine.brand = device.name;
  machine.cores = device.sm_count;
  machine.core_name = "SMs";
  if (!cuda::driver_version().empty()) {
    machine.device = fmt::format("{}, compute capability {}.{}, {} SMs, L2 {} bytes, memory {} bytes, driver {}",
                                 device.name, device.major, device.minor, device.sm_count, device.l2_bytes,
                                 device.memory_bytes, cuda::driver_version());
  }
  machine.isa = fmt::format("sm_90a, CUDA {}", cuda::toolkit_version());
  machine.binary = store::binary_hash();
  machine.compiler = compiler();
  return machine;
}

Result<Roofline> measure_cuda_roofline(const cuda::Timer& timer, const Result<cuda::Cublas>& cublas,
                                       const std::byte* warm, std::size_t warm_bytes) {
  const auto read_ns = [&](measure::Protocol protocol, const std::byte* bytes, std::size_t count) {
    return best_ns(timer, protocol, [&](cudaStream_t stream) { return timer.enqueue_read(bytes, count, stream); });
  };
  Roofline roofline;
  PINCH_ASSIGN(cold_ns, read_ns(measure::Protocol::kCold, timer.flush().data(), timer.flush().bytes()));
  PINCH_ASSIGN(warm_ns, read_ns(measure::Protocol::kWarm, warm, warm_bytes));
  roofline.cold_gbps = static_cast<double>(timer.flush().bytes()) / cold_ns;
  roofline.warm_gbps = static_cast<double>(warm_bytes) / warm_ns;
  if (!cublas) return roofline;
  constexpr std::int64_t kSide = 8192;
  constexpr std::size_t kBytes = kSide * kSide * sizeof(Bf16);
  PINCH_ASSIGN(a, cuda::DeviceMemory::allocate(timer.device(), kBytes));
  PINCH_ASSIGN(b, cuda::DeviceMemory::allocate(timer.device(), kBytes));
  PINCH_ASSIGN(out, cuda::DeviceMemory::allocate(timer.device(), kBytes));
  PINCH_TRY(cuda::enqueue_random_bf16(reinterpret_cast<Bf16*>(a.data()), kSide * kSide, 1, timer.stream()));
  PINCH_TRY(cuda::enqueue_random_bf16(reinterpret_cast<Bf16*>(b.data()), kSide * kSide, 2, timer.stream()));
  PINCH_ASSIGN(ns, best_ns(timer, measure::Protocol::kWarm, [&](cudaStream_t) {
                 return cublas->run(a.data(), b.data(), out.data(), cuda::CublasOutput::kBf16, 1, kSide, kSide, kSide);
               }));
  roofline.gflops = 2.0 * kSide * kSide * kSide / ns;
  return roofline;
}

Result<Code> code_of_call(const cuda::Timer& timer, int sm_count,
                          const std::function<Result<void>(cudaStream_t)>& call) {
  PINCH_ASSIGN(graph, timer.record(call));
  PINCH_ASSIGN(launches, cuda::launches_of(graph.get(), sm_count));
  Result<Code> found = Error{ErrorCode::kNotFound, "the call launches no kernel", ""};
  for (const cuda::Launch& launch : launches) {
    found = read_launched("/proc/self/exe", {launch.kernel, launch.threads / 32, launch.blocks_per_sm});
    if (found.ok() && found->evidence["pipes"].contains("tensor")) break;
  }
  if (found.ok()) found->evidence["kernels_of_the_call"] = launches.size();
  return found;
}

}  // namespace pinch::ladder
