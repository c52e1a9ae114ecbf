#include "pinch/gemm_problem.h"

#include <fmt/core.h>

namespace pinch {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;

struct Size {
  const char* name;
  std::int64_t value;
};

}  // namespace

Result<void> validate(const GemmProblem& problem) {
  const Size m{"m", problem.m}, n{"n", problem.n}, k{"k", problem.k};
  for (const Size& size : {m, n, k}) {
    if (size.value < 1) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} is {}; every size must be at least 1", size.name, size.value), size.name};
    }
  }
  for (const auto& [a, b] : {std::pair{m, n}, std::pair{m, k}, std::pair{n, k}}) {
    if (a.value > kMaxElements / b.value) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}*{} = {}*{} overflows; at most 2^60 elements are allowed, give smaller sizes", a.name,
                               b.name, a.value, b.value),
                   fmt::format("{}*{}", a.name, b.name)};
    }
  }
  return {};
}

}  // namespace pinch
