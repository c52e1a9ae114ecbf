// Attention on the CPU with marks on, for `pinch trace attention`. Never part of the library: nothing that is tuned,
// benchmarked or shipped runs these instances.
#pragma once

#include <memory>
#include <string>

#include "pinch/attention.h"
#include "pinch/result.h"
#include "pinch/trace_file.h"

namespace pinch::attention {

class TracedAttention {
 public:
  /// Plans the problem as plan_attention does. Errors: its.
  static Result<TracedAttention> create(const AttentionProblem& problem, const AttentionOptions& options);

  [[nodiscard]] std::string tactic() const;

  /// One call on valid arguments. kOff is the instance of the library. The same bits at every level.
  void run(trace::Level level, const AttentionInputs& in, const AttentionOutputs& out);

  static trace::Names names();

 private:
  struct State;
  explicit TracedAttention(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace pinch::attention
