// A trace's analysis as a table and as JSON, and two of them side by side.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "pinch/result.h"
#include "workbench/trace/analysis.h"
#include "workbench/trace/cost.h"

namespace pinch::trace {

std::string to_table(const Analysis& analysis, const Cost& cost);
nlohmann::ordered_json to_json(const Analysis& analysis, const Cost& cost);

/// Errors: kInvalidArgument, with `where`, for a document that compare() cannot read.
Result<void> check_document(const nlohmann::ordered_json& document, const std::string& where);

/// What moved between two documents of to_json. Errors: kInvalidArgument for a document that is none, for two of
/// different units, or that share no role.
Result<nlohmann::ordered_json> compare(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);
std::string compare_table(const nlohmann::ordered_json& comparison);

}  // namespace pinch::trace
