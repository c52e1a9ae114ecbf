// A baseline: the figures of a project that its CI holds, so that a changed flag is noticed by someone.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/sass/diff.h"

namespace pinch::gate {

/// What figures are taken from. Code is analysed with the built-in opcode map, so that every machine reads it alike.
struct Sources {
  std::vector<std::string> code;     ///< cubins, fatbins, programs with device code
  std::string kernels;               ///< regular expression: of those kernels, the ones whose name matches
  std::vector<std::string> results;  ///< documents of `pinch tune --json` and `pinch check compare --json`
};

/// {schema, code: [a kernel], tunes: [a problem], checks: [a comparison]}, each entry named by `what`. Errors: those of
/// reading; kInvalidArgument for a document of neither kind, for two entries of one name and where there is none.
Result<nlohmann::ordered_json> baseline_of(const Sources& sources);

struct Thresholds {
  double regret_percent = 2;    ///< more that the default may cost, beyond what either run calls a tie
  double error_percent = 1;     ///< more relative L2 error
  double headroom_points = 10;  ///< more of the time above the unit that binds
  sass::GateThresholds code;
  bool allow_tools = false;    ///< another compiler or other options
  bool allow_missing = false;  ///< entries that are not there now
  bool same_code = false;      ///< no word of a kernel's machine code may be another one
};

struct Change {
  std::string section, what;  ///< "tunes", "m=8 n=1024 ..."
  std::string text;           ///< "regret of the default 1.300, baseline 1.020 (allowed 1.040)"
};
struct Held {
  int figures = 0;  ///< compared
  std::vector<Change> failures;
  std::vector<Change> unjudged;  ///< of another device, or new
};

/// Errors: kCorrupt where the baseline is none; kInvalidArgument where nothing of it is comparable.
Result<Held> hold(const nlohmann::ordered_json& baseline, const nlohmann::ordered_json& current,
                  const Thresholds& thresholds);

}  // namespace pinch::gate
