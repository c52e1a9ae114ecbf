// The CPU product with marks on, for `pinch trace gemm`. Never part of the library: nothing that is tuned, benchmarked
// or shipped runs these instances.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pinch/formats.h"
#include "pinch/fp4.h"
#include "pinch/gemm.h"
#include "pinch/result.h"
#include "pinch/trace_file.h"

namespace pinch::detail {

class TracedGemm {
 public:
  /// Prepares weights and plans m rows, as prepare_weights and plan_gemm do. Errors: theirs.
  static Result<TracedGemm> create(const Fp4View& weights, std::int64_t m, const GemmOptions& options);

  [[nodiscard]] std::string tactic() const;
  [[nodiscard]] int threads() const;

  /// One product, a [m, k] and out [m, n] without gaps. kOff is the instance of the library. The same bits at every
  /// level.
  void run(trace::Level level, const Bf16* a, void* out);

  static trace::Names names();

 private:
  struct State;
  explicit TracedGemm(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace pinch::detail
