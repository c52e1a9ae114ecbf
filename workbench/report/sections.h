// Sections of a page, by the kind of document that they show, and what they share.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workbench/report/page.h"

namespace pinch::report {

// Each reads a document as pinch writes it, and throws nlohmann::json::exception for one that is otherwise.

/// pinch tune gemm, attention.
Section tune_section(const nlohmann::ordered_json& document);
/// pinch sweep, pinch tune SUBJECT.toml: one a problem.
std::vector<Section> sweep_sections(const nlohmann::ordered_json& document);
/// pinch check flake, compare, bisect. `name`: of the document.
Section flake_section(const nlohmann::ordered_json& document, const std::string& name);
Section compare_section(const nlohmann::ordered_json& document, const std::string& name);
Section bisect_section(const nlohmann::ordered_json& document, const std::string& name);
/// pinch sass FILE.
Section sass_section(const nlohmann::ordered_json& document, const std::string& name);
/// pinch trace --json; with the trace itself, a window of its steady state too. Errors: those of reading the trace.
Section trace_section(const nlohmann::ordered_json& document);
Result<Section> trace_section(const std::string& path);

// --- shared

inline constexpr std::size_t kBars = 24;  // of a chart; its table has all

std::string text_of(const nlohmann::ordered_json& value);
/// "m 8, n 256".
std::string pairs_text(const nlohmann::ordered_json& object);
std::optional<double> number_of(const nlohmann::ordered_json& value);
Figure table_figure(std::string title, std::string about, Table table);
Table facts(const std::vector<std::pair<std::string, std::string>>& rows);
std::string kind_of(bool is_best, bool is_default);

Figure ladder_figure(const nlohmann::ordered_json& findings);
std::string next_text(const nlohmann::ordered_json& next);

/// The hot loop that a finding read: its units, and its instructions in their order. None where no code was read.
std::vector<Figure> code_figures(const nlohmann::ordered_json& findings);

/// A setting of knobs on a heat map.
struct HeatPoint {
  const nlohmann::ordered_json* knobs = nullptr;  ///< values by name
  std::optional<double> cost;                     ///< less is better; above 0
  std::string text;
  bool is_default = false, is_best = false;
};
/// The two knobs with most values, each pair at its best over the others; none where fewer than two vary.
std::optional<Figure> heat_figure(const std::vector<HeatPoint>& points, const std::string& what);

}  // namespace pinch::report
