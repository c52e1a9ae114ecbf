// Reports as JSON: the schema of `pinch sass --json` (docs/sass.md).
#pragma once

#include <nlohmann/json.hpp>

#include "workbench/sass/analysis.h"

namespace pinch::sass {

[[nodiscard]] nlohmann::ordered_json to_json(const KernelReport& report, const AnalysisOptions& options);
[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<KernelReport>& reports, const AnalysisOptions& options);

}  // namespace pinch::sass
