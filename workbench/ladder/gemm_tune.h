// pinch tune gemm without its command line: looks the problem up, tunes it where the answer is not known, and stores
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/fp4.h"
#include "pinch/gemm_problem.h"
#include "workbench/ladder/gemm_target.h"
#include "workbench/ladder/tactic_rung.h"
#include "workbench/store/tune_store.h"

namespace pinch::ladder {

struct TuneRequest {
  std::vector<std::int64_t> m;  ///< one problem each
  OutputType output = OutputType::kBf16;
  RungOptions rung;
  bool force = false;        ///< measure even where the store knows
  std::string weights_name;  ///< where the weights came from, for people
};

struct TuneReport {
  GemmProblem problem;
  Resources resources;
  Machine machine;
  measure::Policy policy;
  std::string weights_name;
  RungResult result;
  Roofline roofline;
  std::size_t cold_set_bytes = 0;
  bool cached = false;
  std::string measured_at;  ///< UTC; of a cached result the time it was measured
  std::string version;      ///< of the program that measured
};

struct TuneHooks {
  std::function<void(const GemmProblem&, const Progress&)> progress;
  std::function<bool()> stop_requested;
  std::function<void(const Error&)> warn;       ///< the store failed; the tune goes on without it
  std::function<void(const TuneReport&)> done;  ///< after each problem, an interrupted one too
};

/// Tunes every m of the request. `store` may be null. Stops after the problem that was interrupted. Errors: an invalid
/// problem or one too large for the memory, no legal tactic, no right tactic; reports of earlier problems were given
/// to `done`.
Result<void> tune_gemm(GemmTarget& target, Fp4Matrix weights, const TuneRequest& request, store::TuneStore* store,
                       const TuneHooks& hooks);

}  // namespace pinch::ladder
