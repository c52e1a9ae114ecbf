#include "workbench/trace/subjects.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "kernels/attention/traced/traced.h"
#include "kernels/gemm_bf16_fp4/traced/traced.h"
#include "pinch/trace.h"
#include "workbench/trace/reader.h"

namespace pinch::trace {
namespace {

using pinch::attention::TracedAttention;
using pinch::detail::TracedGemm;

constexpr double kSampleNs = 20e6;
constexpr int kMostCalls = 2000;

std::vector<Bf16> normal_values(std::int64_t count) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<Bf16> values(static_cast<std::size_t>(count));
  for (Bf16& value : values) value = to_bf16(normal(random));
  return values;
}

double call_ns(const Subject& subject, Level level, int calls) {
  const std::uint64_t begin = wall_ns();
  for (int i = 0; i < calls; ++i) subject.call(level);
  return static_cast<double>(wall_ns() - begin) / calls;
}

}  // namespace

Result<Subject> gemm_subject(const Fp4View& weights, std::int64_t m, const GemmOptions& options) {
  PINCH_ASSIGN(gemm, TracedGemm::create(weights, m, options));
  struct State {
    TracedGemm gemm;
    std::vector<Bf16> a;
    std::vector<float> out;  // room for either output type
  };
  auto state = std::make_shared<State>(
      State{gemm, normal_values(m * weights.k), std::vector<float>(static_cast<std::size_t>(m * weights.n))});
  return Subject{fmt::format("gemm {}x{}x{}", m, weights.n, weights.k), gemm.tactic(), TracedGemm::names(),
                 [state](Level level) { state->gemm.run(level, state->a.data(), state->out.data()); }};
}

Result<Subject> attention_subject(const AttentionProblem& problem, const AttentionOptions& options) {
  PINCH_ASSIGN(attention, TracedAttention::create(problem, options));
  struct State {
    TracedAttention attention;
    std::vector<Bf16> q, k, v;
    std::vector<float> o;  // room for either output type
  };
  const std::int64_t q_head = problem.seq * problem.dim, kv_head = problem.kv_seq * problem.dim;
  const std::int64_t q_count = problem.batch * problem.heads * q_head,
                     kv_count = problem.batch * problem.kv_heads * kv_head;
  auto state =
      std::make_shared<State>(State{attention, normal_values(q_count), normal_values(kv_count), normal_values(kv_count),
                                    std::vector<float>(static_cast<std::size_t>(q_count))});
  const auto call = [state, problem, q_head, kv_head](Level level) {
    AttentionInputs in;
    in.q = {state->q.data(), problem.heads * q_head, q_head, problem.dim};
    in.k = {state->k.data(), problem.kv_heads * kv_head, kv_head, problem.dim};
    in.v = {state->v.data(), problem.kv_heads * kv_head, kv_head, problem.dim};
    in.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(problem.dim)));
    AttentionOutputs out;
    out.o = {state->o.data(), problem.heads * q_head, q_head, problem.dim};
    state->attention.run(level, in, out);
  };
  return Subject{fmt::format("attention {}x{}x{}x{} pv {}", problem.batch, problem.heads, problem.seq, problem.dim,
                             to_string(problem.pv)),
                 attention.tactic(), TracedAttention::names(), call};
}

Result<Traced> trace_subject(const Subject& subject, int rounds, Level wanted, const std::string& folder,
                             const std::function<bool()>& stop_requested) {
  double first_ns = 0;
  for (int i = 0; i < 2; ++i) first_ns = call_ns(subject, Level::kOff, 1);
  const int calls = static_cast<int>(std::clamp(kSampleNs / std::max(first_ns, 1.0), 1.0, double{kMostCalls}));

  Traced traced;
  traced.tactic = subject.tactic;
  const auto path_of = [&](Level level) { return folder + "/" + std::string(to_string(level)) + ".trace"; };
  traced.path = path_of(wanted);
  PINCH_ASSIGN(cost, measure_cost(rounds, [&](Level level) -> Result<double> {
                 if (stop_requested && stop_requested()) return Error{ErrorCode::kInterrupted, "interrupted", ""};
                 Session session(level, subject.name, subject.names, path_of(level));
                 subject.call(level);  // wakes the threads, and gives them their buffers
                 double ns = 0;
                 {
                   const auto timed = session.run();
                   ns = call_ns(subject, level, calls);
                 }
                 if (!session.finish()) return Error{ErrorCode::kIo, "the trace cannot be written", path_of(level)};
                 return ns;
               }));
  traced.cost = std::move(cost);
  traced.cost.timed_by = "calls";
  return traced;
}

}  // namespace pinch::trace
