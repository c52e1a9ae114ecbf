// Times of work on one device: a captured graph replayed between two events. Cold: after 256 MiB of other bytes were
// read, so that nothing of the work's operands is left in L2. Warm: after a replay that is not timed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "kernels/common/cuda/runtime.h"

namespace pinch::cuda {

struct DestroyGraph {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using Graph = std::unique_ptr<CUgraphExec_st, DestroyGraph>;
struct DestroyRecordedGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using RecordedGraph = std::unique_ptr<CUgraph_st, DestroyRecordedGraph>;

class Timer {
 public:
  static constexpr std::size_t kFlushBytes = std::size_t{256} << 20;

  /// Errors: no memory for the bytes that flush the L2; a device that does not answer.
  static Result<Timer> create(int device);

  /// What `work` enqueues on stream(), to be replayed; and as it was recorded, to be read.
  Result<Graph> capture(const std::function<Result<void>(cudaStream_t)>& work) const;
  Result<RecordedGraph> record(const std::function<Result<void>(cudaStream_t)>& work) const;

  /// Nanoseconds of one replay.
  Result<double> cold_ns(const Graph& graph) const;
  Result<double> warm_ns(const Graph& graph) const;

  /// Clock rate of the multiprocessors, from cycles and nanoseconds of a kernel that runs for about 30 us.
  Result<double> clock_ghz() const;

  // Yardsticks to capture: a kernel that does nothing, and one read of some bytes (a multiple of 16, aligned to 16).
  static Result<void> enqueue_null(cudaStream_t stream);
  Result<void> enqueue_read(const void* bytes, std::size_t count, cudaStream_t stream) const;

  [[nodiscard]] int device() const { return flush_.device(); }
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  /// The bytes that cold_ns() reads.
  [[nodiscard]] const DeviceMemory& flush() const { return flush_; }

 private:
  struct DestroyStream {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  struct DestroyEvent {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  Timer() = default;
  Result<double> replay_ns(const Graph& graph) const;

  std::unique_ptr<CUstream_st, DestroyStream> stream_;
  std::unique_ptr<CUevent_st, DestroyEvent> begin_, end_;
  DeviceMemory flush_;
  DeviceMemory sink_;  ///< where kernels write what must not be optimised away
};

}  // namespace pinch::cuda
