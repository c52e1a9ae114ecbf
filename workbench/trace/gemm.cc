#include "workbench/trace/gemm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/gemm_bf16_fp4/traced/traced.h"
#include "pinch/trace.h"
#include "workbench/trace/reader.h"

namespace pinch::trace {
namespace {

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

double call_ns(TracedGemm& gemm, Level level, const Bf16* a, void* out, int calls) {
  const std::uint64_t begin = wall_ns();
  for (int i = 0; i < calls; ++i) gemm.run(level, a, out);
  return static_cast<double>(wall_ns() - begin) / calls;
}

}  // namespace

Result<Traced> trace_gemm(const Fp4View& weights, const GemmRequest& request, const std::string& folder,
                          const std::function<bool()>& stop_requested) {
  PINCH_ASSIGN(gemm, TracedGemm::create(weights, request.m, request.options));
  const std::vector<Bf16> a = normal_values(request.m * weights.k);
  std::vector<float> out(static_cast<std::size_t>(request.m * weights.n));  // room for either output type
  const std::string name = fmt::format("gemm {}x{}x{}", request.m, weights.n, weights.k);
  double first_ns = 0;
  for (int i = 0; i < 2; ++i) first_ns = call_ns(gemm, Level::kOff, a.data(), out.data(), 1);
  const int calls = static_cast<int>(std::clamp(kSampleNs / std::max(first_ns, 1.0), 1.0, double{kMostCalls}));

  Traced traced;
  traced.path = folder + "/" + std::string(to_string(request.level)) + ".trace";
  PINCH_ASSIGN(cost, measure_cost(request.rounds, [&](Level level) -> Result<double> {
                 if (stop_requested && stop_requested()) return Error{ErrorCode::kInterrupted, "interrupted", ""};
                 const std::string path = folder + "/" + std::string(to_string(level)) + ".trace";
                 Session session(level, name, TracedGemm::names(), path);
                 gemm.run(level, a.data(), out.data());  // wakes the threads, and gives them their buffers
                 double ns = 0;
                 {
                   const auto timed = session.run();
                   ns = call_ns(gemm, level, a.data(), out.data(), calls);
                 }
                 if (!session.finish()) return Error{ErrorCode::kIo, "the trace cannot be written", path};
                 return ns;
               }));
  traced.cost = std::move(cost);
  traced.cost.timed_by = "calls";
  return traced;
}

}  // namespace pinch::trace
