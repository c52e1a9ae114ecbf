// What tuning and benchmarking on a CUDA device share, whatever is computed: its samples, its limits, its description.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string_view>

#include "pinch/cuda.h"
#include "workbench/cuda/cublas.h"
#include "workbench/cuda/timer.h"
#include "workbench/ladder/climb.h"
#include "workbench/ladder/machine.h"
#include "workbench/ladder/roofline.h"
#include "workbench/measure/sampler.h"

namespace pinch::ladder {

/// How samples are taken: Task::protocol().
inline constexpr std::string_view kCudaProtocol = "graph replays between events, 256 MiB read before cold ones";

/// Replays captured graphs; a sample is one replay.
class GraphSampler final : public measure::Sampler {
 public:
  explicit GraphSampler(const cuda::Timer& timer) : timer_(timer) {}

  void add(std::size_t id, cuda::Graph graph) { graphs_[id] = std::move(graph); }

  Result<measure::Sample> sample(const measure::Candidate& candidate, measure::Protocol protocol,
                                 const measure::Policy&) override {
    PINCH_ASSIGN(ns, replay_ns(candidate.id, protocol));
    PINCH_ASSIGN(ghz, timer_.clock_ghz());
    rates_.add(ghz);
    return measure::Sample{0, protocol, 1, ns, 0, ghz, true};
  }
  [[nodiscard]] measure::ClockRates clock_rates() const override { return rates_; }

  Result<double> replay_ns(std::size_t id, measure::Protocol protocol) const {
    const cuda::Graph& graph = graphs_.at(id);
    return protocol == measure::Protocol::kCold ? timer_.cold_ns(graph) : timer_.warm_ns(graph);
  }

 private:
  const cuda::Timer& timer_;
  std::map<std::size_t, cuda::Graph> graphs_;
  measure::ClockRates rates_;
};

Machine describe_device(const cuda::Device& device);

/// Reading once more than L2 holds, and reading `warm` again; multiplying as fast as cuBLAS does a large cube, 0 where
/// it is not there. Errors: kOutOfMemory, kDevice.
Result<Roofline> measure_cuda_roofline(const cuda::Timer& timer, const Result<cuda::Cublas>& cublas,
                                       const std::byte* warm, std::size_t warm_bytes);

/// The machine code, in this program, of the kernel that does a call's work: of those that it launches the one that
/// multiplies with the matrix unit, else the last. Errors: those of cuda::launches_of and read_launched.
Result<Code> code_of_call(const cuda::Timer& timer, int sm_count,
                          const std::function<Result<void>(cudaStream_t)>& call);

}  // namespace pinch::ladder
